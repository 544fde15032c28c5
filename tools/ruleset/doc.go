// Package ruleset says what the rules of all programs on a host do to a packet at each hook of netfilter. It reads what
// iptables-save and nft print, into one model. [Tables.Judge] is pure. The package changes no rule, and asks no kernel.
package ruleset
