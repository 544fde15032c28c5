// Package cloud models a cloud provider's route tables in virtual time: the router of the
// underlay forwards packets between pods by their entries, and each host is an instance
// whose daemon reads and changes them as the real clients do.
//
// The faults are those of real providers: requests are throttled or take their time,
// answers are older than the tables, a table is full, and other programs change entries.
package cloud
