package udppath

import "golang.org/x/sys/cpu"

// wideSum is the number of bytes of which sumWide takes a multiple.
const wideSum = 128

// hasWideSum reports whether the processor and the system have AVX2.
var hasWideSum = cpu.X86.HasAVX2 // tests unset it

// sumWide returns the sum of 32-bit words as they lie in memory. It needs AVX2, and a
// multiple of wideSum bytes that is not 0 and below 16 GiB, so that no carry is lost.
//
//go:noescape
func sumWide(b []byte) uint64
