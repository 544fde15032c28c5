package dockeropts

import (
	"fmt"
	"regexp"
	"strings"
)

// The defaults of older releases (interop 4.4).
const (
	DefaultFile = "/run/docker_opts.env"
	DefaultKey  = "DOCKER_OPTS"
)

// Form says which variables [Subnet.Format] writes.
type Form struct {
	Separate bool   // each option as a variable
	Combined bool   // all options as one variable
	NoMasq   bool   // leave out --ip-masq
	Key      string // the name of the one variable
}

// keyName matches the names that a shell takes for variables.
var keyName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Complete makes a form without a choice write both kinds of variables. It refuses
// a key that is no name of a variable.
func (f *Form) Complete() error {
	if !keyName.MatchString(f.Key) {
		return fmt.Errorf("-k %s: want the name of a variable", f.Key)
	}
	if !f.Separate && !f.Combined {
		f.Separate, f.Combined = true, true
	}
	return nil
}

// Subnet holds the values of a subnet file that Docker needs, as they are written.
// Masq and MTU may be empty.
type Subnet struct {
	Address string // the bridge's, with the length of the subnet: 10.5.72.1/24
	Masq    string // true if flanneld masquerades
	MTU     string // bytes
}

var (
	addressForm = regexp.MustCompile(`^[0-9.]+/[0-9.]+$`)
	numberForm  = regexp.MustCompile(`^[0-9]*$`)
)

// Parse reads the text of a subnet file. The path is for errors.
func Parse(path, text string) (Subnet, error) {
	var s Subnet
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch name {
		case "FLANNEL_SUBNET":
			s.Address = value
		case "FLANNEL_IPMASQ":
			s.Masq = value
		case "FLANNEL_MTU":
			s.MTU = value
		}
	}
	switch {
	case s.Address == "":
		return s, fmt.Errorf("%s has no FLANNEL_SUBNET: Docker needs an IPv4 subnet", path)
	case !addressForm.MatchString(s.Address):
		return s, fmt.Errorf("%s: FLANNEL_SUBNET=%s is no address with a prefix length", path, s.Address)
	case s.Masq != "" && s.Masq != "true" && s.Masq != "false":
		return s, fmt.Errorf("%s: FLANNEL_IPMASQ=%s is neither true nor false", path, s.Masq)
	case !numberForm.MatchString(s.MTU):
		return s, fmt.Errorf("%s: FLANNEL_MTU=%s is no number", path, s.MTU)
	}
	return s, nil
}

// Format returns the variables, one a line. Docker masquerades if flanneld does not.
func (s Subnet) Format(f Form) []byte {
	var separate, combined strings.Builder
	add := func(name, option, value string) {
		fmt.Fprintf(&separate, "DOCKER_OPT_%s=\"--%s=%s\"\n", name, option, value)
		fmt.Fprintf(&combined, " --%s=%s", option, value)
	}
	add("BIP", "bip", s.Address)
	if s.Masq != "" && !f.NoMasq {
		add("IPMASQ", "ip-masq", fmt.Sprint(s.Masq != "true"))
	}
	if s.MTU != "" {
		add("MTU", "mtu", s.MTU)
	}
	text := ""
	if f.Separate {
		text = separate.String()
	}
	if f.Combined {
		text += fmt.Sprintf("%s=\"%s\"\n", f.Key, combined.String())
	}
	return []byte(text)
}
