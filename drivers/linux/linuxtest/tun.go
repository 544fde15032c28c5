package linuxtest

import "os"

// TryTUN says why this user cannot make TUN devices here, such as that the
// device file is root's alone.
func TryTUN() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}
