package linuxtest

import "os"

// TryTUN returns the reason why this user cannot make TUN devices here, for
// example that only root may open the device file.
func TryTUN() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}
