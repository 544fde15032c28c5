package tunnel_test

import (
	"testing"

	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

func TestMain(m *testing.M) { linuxtest.Main(m) }
