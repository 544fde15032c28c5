//go:build !amd64

package udppath

// There is no wide sum for this processor: see sum_amd64.go.
const wideSum = 128

var hasWideSum = false

func sumWide([]byte) uint64 { panic("no wide sum for this processor") }
