package nl

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/driver"
)

// kernelError is the kernel's refusal of one request.
type kernelError struct {
	errno unix.Errno
	note  string // the extended acknowledgement's text, often empty
}

func (e kernelError) Error() string {
	if e.note == "" {
		return e.errno.Error()
	}
	return fmt.Sprintf("%s (%s)", e.errno.Error(), e.note)
}

func (e kernelError) Unwrap() error { return e.errno }

// verdict reads an NLMSG_ERROR or NLMSG_DONE message: an errno, 0 for success,
// and possibly a note.
func verdict(m Message) error {
	if len(m.Body) < 4 {
		return nil
	}
	errno := int32(Native.Uint32(m.Body))
	if errno >= 0 {
		return nil
	}
	e := kernelError{errno: unix.Errno(-errno)}
	if m.flags&unix.NLM_F_ACK_TLVS == 0 {
		return e
	}
	at := 4
	if m.Kind == unix.NLMSG_ERROR { // the header of the request comes in between
		at += headerLen
	}
	if at > len(m.Body) {
		return e
	}
	for kind, value := range Attrs(m.Body[at:]) {
		if kind == unix.NLMSGERR_ATTR_MSG {
			e.note = Text(value)
		}
	}
	return e
}

// classes are those of package driver.
var classes = [...]error{
	driver.ErrExists, driver.ErrNotFound, driver.ErrLinkDown, driver.ErrUnreachable,
	driver.ErrUnsupported, driver.ErrBusy, driver.ErrInvalid, driver.ErrDenied,
}

// NamedClass returns the class that an error wraps, nil if it wraps none.
func NamedClass(err error) error {
	for _, class := range classes {
		if errors.Is(err, class) {
			return class
		}
	}
	return nil
}

// ClassOf returns the class that an error wraps, or else the class of its
// errno, nil if neither has one.
func ClassOf(err error) error {
	if class := NamedClass(err); class != nil {
		return class
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	switch errno {
	case unix.EEXIST:
		return driver.ErrExists
	case unix.ENOENT, unix.ESRCH, unix.ENODEV, unix.ENXIO, unix.EADDRNOTAVAIL:
		return driver.ErrNotFound
	case unix.ENETDOWN:
		return driver.ErrLinkDown
	case unix.ENETUNREACH, unix.EHOSTUNREACH:
		return driver.ErrUnreachable
	case unix.EOPNOTSUPP, unix.EAFNOSUPPORT:
		return driver.ErrUnsupported
	case unix.EBUSY, unix.ENOBUFS, unix.EAGAIN, unix.ENOMEM, unix.EADDRINUSE:
		return driver.ErrBusy
	case unix.EINVAL, unix.ERANGE:
		return driver.ErrInvalid
	case unix.EPERM, unix.EACCES, unix.EROFS:
		return driver.ErrDenied
	}
	return nil
}

// IsGone reports whether the error says that its object does not exist.
func IsGone(err error) bool { return ClassOf(err) == driver.ErrNotFound }

// Failed returns err with the attempted action and its class, see [ClassOf].
func Failed(doing fmt.Stringer, err error) error { return FailedAs(doing, err, ClassOf(err)) }

// FailedAs returns err with the attempted action and the given class; nil: no
// class.
func FailedAs(doing fmt.Stringer, err, class error) error {
	switch {
	case err == nil:
		return nil
	case class == nil || errors.Is(err, class):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, class, err)
}
