// Package oracle derives what a host must hold from the records in the store.
package oracle
