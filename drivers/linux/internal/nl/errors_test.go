package nl

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

func TestClassOf(t *testing.T) {
	for class, errnos := range map[error][]unix.Errno{
		driver.ErrExists:      {unix.EEXIST},
		driver.ErrNotFound:    {unix.ENOENT, unix.ESRCH, unix.ENODEV, unix.ENXIO, unix.EADDRNOTAVAIL},
		driver.ErrLinkDown:    {unix.ENETDOWN},
		driver.ErrUnreachable: {unix.ENETUNREACH, unix.EHOSTUNREACH},
		driver.ErrUnsupported: {unix.EOPNOTSUPP, unix.EAFNOSUPPORT},
		driver.ErrBusy:        {unix.EBUSY, unix.ENOBUFS, unix.EAGAIN, unix.ENOMEM, unix.EADDRINUSE},
		driver.ErrInvalid:     {unix.EINVAL, unix.ERANGE},
		driver.ErrDenied:      {unix.EPERM, unix.EACCES, unix.EROFS},
	} {
		for _, errno := range errnos {
			err := Failed(dataplane.Addr{Link: "x"}, kernelError{errno: errno, note: "because"})
			if !errors.Is(err, class) || !errors.Is(err, errno) {
				t.Errorf("%v is not of class %q, or hides its cause", err, class)
			}
		}
	}
	if class := ClassOf(unix.EPIPE); class != nil {
		t.Errorf("EPIPE has class %q", class)
	}
	// The text does not repeat a class that the cause already names.
	err := Failed(dataplane.Addr{Link: "x"}, driver.ErrInvalid)
	if got, want := err.Error(), "addr invalid Prefix dev x: invalid"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
