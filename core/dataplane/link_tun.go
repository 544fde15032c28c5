package dataplane

// LinkTUN is the kernel's name for the kind of [TUN].
const LinkTUN LinkKind = "tun"

// TUN is a device whose packets a process carries: IP packets without a further
// header. The device persists while no process has it open. It has no parameters.
type TUN struct{}

// Kind implements [LinkParams].
func (TUN) Kind() LinkKind { return LinkTUN }

func (TUN) words(*line) {}

func (t TUN) withWord(string, *fields) (LinkParams, bool) { return t, false }

func (TUN) become(LinkParams) error { return nil }
