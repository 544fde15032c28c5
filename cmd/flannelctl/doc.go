// Flannelctl is the operator's tool. This package holds the commands and their
// flags, one file each; the packages below tools do the work.
package main
