// Package firewall is the [driver.Lane] of the Linux kernel: it reads and
// writes the chains by which flannel masquerades and forwards, as nftables and
// as iptables of either variant, for both address families.
//
// # What is where
//
// A chain of nftables is a base chain in our own table. A chain of iptables
// is our chain in a shared table, and a rule in the shared chain of the
// hook that jumps to it (interop 7.1, 7.2). Rules that older releases put directly
// into the shared chains are found by comment or by shape, and belong
// to the chain that replaces them. Nothing else is ours, and nothing else is
// changed: rules in shared chains are deleted as they were read, never by number.
//
// # Reading
//
// The driver compares the kernel's rules, never its memory of what it wrote. It
// reads nftables over netlink, expression by expression; a chain with an unknown
// expression differs from every wanted chain. It reads iptables with iptables-save,
// the only authority on how those rules are stored. For iptables-nft that runs only
// if the rules of a chain that matters have changed. iptables-legacy does not
// report whether its tables have changed, so on a host that has such tables each
// look starts one process for each family; on all others a look at unchanged rules
// starts none.
//
// # Writing
//
// Each family and flavour is one transaction in one process: nft through knftables
// for nftables, iptables-restore --noflush for iptables. A packet meets all of
// the old rules or all of the new ones. A second process writes the other variant
// of iptables: it removes our chains there, and keeps the one at the hook forward
// while FORWARD there drops packets. Each process waits for the lock of iptables
// with a bound; after that the caller gets [driver.ErrBusy].
package firewall
