package labworld

import "fmt"

// natRules are a NAT without state, so that it treats no packet as the reply to an
// earlier one.
const natRules = "add table inet nat-before; " +
	"add chain inet nat-before out { type filter hook postrouting priority 300; }; " +
	"add rule inet nat-before out udp sport %[1]d udp sport set %[2]d; " +
	"add chain inet nat-before in { type filter hook prerouting priority -400; }; " +
	"add rule inet nat-before in udp dport %[1]d drop; " +
	"add rule inet nat-before in udp dport %[2]d udp dport set %[1]d"

// TranslatePort implements [lang.PortTranslator].
func (n *netnsNode) TranslatePort(inner, outer uint16) error {
	script := "nft delete table inet nat-before"
	if outer != 0 {
		script = "nft '" + fmt.Sprintf(natRules, inner, outer) + "'"
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	_, err := n.Shell(ctx, script)
	return err
}
