package linux

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

// classOf returns the class an error belongs to, nil if there is none for it.
func classOf(err error) error {
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

// isGone reports whether the error says that its object does not exist.
func isGone(err error) bool { return errors.Is(classOf(err), driver.ErrNotFound) }

// failed names the object and wraps the class beside the cause.
func failed(doing fmt.Stringer, err error) error {
	if err == nil {
		return nil
	}
	if class := classOf(err); class != nil && !errors.Is(err, class) {
		return fmt.Errorf("%s: %w: %w", doing, class, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
