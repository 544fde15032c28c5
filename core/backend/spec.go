package backend

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Spec describes a type of backend. Package all lists every Spec; errors, the
// daemon's help, the manual, the random search and the chart derive from them.
type Spec struct {
	Type    string // in lower case, as a config names it
	Summary string // for people: a few words
	Carries []Families
	Options []Option

	// New makes the backend. The config's Backend object has every option, each
	// with a value that it takes, so json.Unmarshal reads it.
	New func(config.Network) (Backend, error)

	// Devices names the devices that the backend makes, see [DeviceName]. All are of one kind.
	Devices    []string
	DeviceKind dataplane.LinkKind

	// Lanes names the lanes of package node, beside that of the host, in which
	// Render wants objects.
	Lanes []string

	// SharesData means that several nodes may publish the same backend data. With
	// other backends, equal data are a copy of another host's.
	SharesData bool

	// Shows returns the agreed options that a record shows; nil: those that are members of its data.
	Shows func(*lease.Attrs) json.RawMessage

	// OnCopy tells the operator how to end a copy if the node itself cannot: its data
	// follow from a file. "" if the node draws other data.
	OnCopy string

	// OwnAddresses means that the node publishes the addresses of its interface,
	// also where others are set as public.
	OwnAddresses bool

	// Needs names a file of the host without which the backend cannot work; "" for none.
	// The chart mounts /dev/net/tun, and offers no backend with another need.
	Needs string

	// IgnoresPeers means that the backend reads no other node's lease.
	IgnoresPeers bool

	// CarriesNothing means that another program carries the packets.
	CarriesNothing bool

	// Encrypts means that packets to peers are encrypted on the underlay.
	Encrypts bool

	// Alone means that it cannot serve some peers while another backend serves others.
	Alone bool

	// SharesDevices means that two ways of this type stand beside each other on the same devices:
	// they want the same links, and what they want for one peer adds up.
	SharesDevices bool

	// Untyped means that its records have no BackendType (interop 3.3).
	Untyped bool

	// OmitsIPv4 means that on Kubernetes a record without an IPv4 address has no
	// IPv4 members; other backends write 0.0.0.0 (interop 5.2).
	OmitsIPv4 bool

	// FixedPorts are UDP ports at which a host listens, beside those of the Options.
	FixedPorts []uint16

	// SharesPorts means that any number of its devices may listen at one UDP port.
	SharesPorts bool
}

// DeviceName returns the name of a device by its pattern, in which "#" stands for the VNI of
// VXLAN and "@" for its port.
func DeviceName(pattern string, v dataplane.VXLAN) string {
	return strings.NewReplacer("#", fmt.Sprint(v.VNI), "@", fmt.Sprint(v.Port)).Replace(pattern)
}

// NamesDevice reports whether the backend gives such a name to a device.
func (s Spec) NamesDevice(name string) bool {
	return slices.ContainsFunc(s.Devices, func(pattern string) bool {
		return DeviceName(pattern, numbersIn(pattern, name)) == name
	})
}

// numbersIn returns the numbers that a name has where a pattern has signs for them, if it is of that pattern.
func numbersIn(pattern, name string) (v dataplane.VXLAN) {
	for _, c := range pattern {
		var n uint32
		switch c {
		case '#':
			v.VNI, name = leadingNumber(name)
		case '@':
			n, name = leadingNumber(name)
			v.Port = uint16(n)
		default:
			name = strings.TrimPrefix(name, string(c))
		}
	}
	return v
}

// leadingNumber cuts the decimal number off with which a text begins; 0 if there is none.
func leadingNumber(text string) (n uint32, rest string) {
	rest = strings.TrimLeft(text, "0123456789")
	number, _ := strconv.ParseUint(text[:len(text)-len(rest)], 10, 32)
	return uint32(number), rest
}

// MakesDevice reports whether the backend makes such a device: of its kind, and with the
// name that it gives to that one. A device with a MAC of its own is no TUN device.
func (s Spec) MakesDevice(l dataplane.Link) bool {
	vxlan, isVXLAN := l.Params.(dataplane.VXLAN)
	names := func(pattern string) bool {
		if !isVXLAN { // its name alone says the port
			vxlan = numbersIn(pattern, l.Name)
		}
		return l.Name == DeviceName(pattern, vxlan)
	}
	tap := l.Kind() == dataplane.LinkTUN && !l.MAC.IsZero()
	return l.Kind() == s.DeviceKind && !tap && slices.ContainsFunc(s.Devices, names)
}

// Families is a combination of address families that a network can have.
type Families string

// The combinations.
const (
	IPv4Only Families = "IPv4"
	IPv6Only Families = "IPv6"
	Both     Families = "both"
)

// EveryFamily lists all combinations.
var EveryFamily = []Families{IPv4Only, IPv6Only, Both}

// FamiliesOf returns the combination that a network has.
func FamiliesOf(network config.Network) Families {
	switch {
	case !network.V6.Enabled():
		return IPv4Only
	case !network.V4.Enabled():
		return IPv6Only
	}
	return Both
}

// OptionKind is the kind of value that an option takes.
type OptionKind string

// The kinds.
const (
	Whole  OptionKind = "whole number"
	Switch OptionKind = "true or false"
	Text   OptionKind = "text"
	Texts  OptionKind = "text or a list of texts"
	Key    OptionKind = "key" // a secret in base64, or "" for none; no message shows it

	Passphrase OptionKind = "passphrase" // a secret text; no message shows it
)

// PortUse says when a host listens at a UDP port.
type PortUse int

// The uses.
const (
	NoPort   PortUse = iota
	Port             // always
	PortOfV6         // if the network has IPv6
)

// Ports returns the UDP ports at which a host listens for the backend that a network
// config asks for. The backend can be opened.
func (s Spec) Ports(network config.Network) []UDPPort {
	var ports []UDPPort
	for _, port := range s.FixedPorts {
		ports = append(ports, UDPPort{port, s.SharesPorts})
	}
	members, _ := network.Backend.Members()
	for _, o := range s.Options {
		if o.Port == NoPort || o.Port == PortOfV6 && !network.V6.Enabled() {
			continue
		}
		port, _ := strconv.ParseUint(string(o.valueIn(members)), 10, 16)
		ports = append(ports, UDPPort{cmp.Or(uint16(port), uint16(o.ZeroMeans)), s.SharesPorts})
	}
	return ports
}

// UDPPort is a UDP port at which a host listens.
type UDPPort struct {
	Number uint16
	Shared bool // by a backend that shares it with others of its type; there is one such type, vxlan
}

// Excludes reports whether one host cannot have both.
func (p UDPPort) Excludes(o UDPPort) bool { return p.Number == o.Number && !(p.Shared && o.Shared) }

// Exclude returns the number of the first port of some that one host cannot have beside others; 0 if there is none.
func Exclude(ports, others []UDPPort) uint16 {
	for _, p := range ports {
		if slices.ContainsFunc(others, p.Excludes) {
			return p.Number
		}
	}
	return 0
}

// Option is a member of the config's Backend object.
type Option struct {
	Name    string
	Kind    OptionKind
	Default string // in JSON
	Help    string // for people: a few words

	Min, Max int64    // of a Whole
	Zero     string   // the meaning of 0, which is then allowed beside Min to Max
	Choices  []string // of a Text; nil: any

	// Agreed options have to be the same on two nodes that reach each other. A change
	// of one is a change of the way in which packets travel, see [Spec.Identity].
	Agreed bool
	// AgreedInBoth options are so in networks with both families.
	AgreedInBoth bool
	// Alike holds the values of a Text on which nodes agree although they differ, and the one that stands for them.
	Alike map[string]string
	// ZeroMeans is the value for which 0 stands in an Agreed option; 0: none.
	ZeroMeans int64

	// Port says whether the value is a UDP port at which the host listens.
	Port PortUse

	// Required options have to be in a config. Each has an Example.
	Required bool

	// Ignored options are read by other programs that share the config, and not by this one.
	Ignored bool

	// Example is a typical value other than the default, in JSON. The random
	// search draws it; "" if the search leaves the option alone.
	Example string

	// ChartValue is the name of the option in the chart's values, "" if it is not there.
	// Options of several backends may share one, which then means that of the chosen backend.
	ChartValue string
	// Pattern is the regular expression that the chart's schema demands of a Text or Key.
	Pattern string
}

// Open makes the backend that a network config asks for.
func (s Spec) Open(network config.Network) (Backend, error) {
	members, err := network.Backend.Members()
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if err := s.check(m); err != nil {
			return nil, err
		}
	}
	for _, o := range slices.Backward(s.Options) {
		if !o.Ignored {
			network.Backend = network.Backend.WithDefault(o.Name, o.Default)
		}
	}
	return s.New(network)
}

// Example returns a Backend object with examples for the required options and for the
// given ones.
func (s Spec) Example(also ...Option) string {
	object := fmt.Sprintf(`{"Type":%q`, s.Type)
	for _, o := range s.Options {
		if o.Required || slices.ContainsFunc(also, func(a Option) bool { return a.Name == o.Name }) {
			object += fmt.Sprintf(`,%q:%s`, o.Name, o.Example)
		}
	}
	return object + "}"
}

// Unknown returns the members of a config's Backend object that no option names.
func (s Spec) Unknown(b config.Backend) []string {
	var names []string
	members, _ := b.Members() // Open reports the error
	for _, m := range members {
		_, known := s.option(m.Name)
		if !known && !strings.EqualFold(m.Name, "Type") {
			names = append(names, m.Name)
		}
	}
	return names
}

// option finds an option by its name, in either case.
func (s Spec) option(name string) (Option, bool) {
	i := slices.IndexFunc(s.Options, func(o Option) bool { return strings.EqualFold(o.Name, name) })
	if i < 0 {
		return Option{}, false
	}
	return s.Options[i], true
}

// check returns an error if a member has a value that its option does not take.
func (s Spec) check(m config.Member) error {
	o, known := s.option(m.Name)
	if !known || o.Ignored || m.IsNull() || o.takes(m.Value) {
		return nil
	}
	if o.Kind == Key || o.Kind == Passphrase {
		return fmt.Errorf("Backend %s: want %s", o.Name, o.Wants())
	}
	return fmt.Errorf("Backend %s %s: want %s", o.Name, m.Excerpt(), o.Wants())
}

// valueIn returns the option's value in a Backend object, or else its default.
func (o Option) valueIn(members []config.Member) json.RawMessage {
	value := json.RawMessage(o.Default)
	for _, m := range members { // the last one counts
		if strings.EqualFold(m.Name, o.Name) && !m.IsNull() {
			value = m.Value
		}
	}
	return value
}

func (o Option) takes(value json.RawMessage) bool {
	switch o.Kind {
	case Whole:
		var n int64
		err := json.Unmarshal(value, &n)
		return err == nil && (n >= o.Min && n <= o.Max || n == 0 && o.Zero != "")
	case Switch:
		var on bool
		return json.Unmarshal(value, &on) == nil
	}
	var text string
	err := json.Unmarshal(value, &text)
	if o.Kind == Texts && err != nil {
		return json.Unmarshal(value, new([]string)) == nil
	}
	if o.Kind == Key && err == nil && text != "" {
		_, err = dataplane.ParseSecret(text)
	}
	return err == nil && (o.Choices == nil || slices.Contains(o.Choices, text))
}

// Wants returns the values that the option takes, such as "a whole number from 1 to 65535".
func (o Option) Wants() string {
	switch {
	case o.Kind == Whole && o.Zero != "":
		return fmt.Sprintf("0 or a whole number from %d to %d", o.Min, o.Max)
	case o.Kind == Whole:
		return fmt.Sprintf("a whole number from %d to %d", o.Min, o.Max)
	case o.Kind == Switch:
		return "true or false"
	case o.Kind == Key:
		return fmt.Sprintf("%d bytes in base64", dataplane.SecretSize)
	case o.Kind == Passphrase:
		return "a secret text"
	case o.Kind == Texts:
		return "a text or a list of texts"
	case o.Choices != nil:
		return "one of " + strings.Join(o.Choices, ", ")
	}
	return "a text"
}
