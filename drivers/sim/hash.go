package sim

// FNV-1a, because it is short, fast on short strings and the same everywhere.
const (
	hashStart uint64 = 14695981039346656037
	hashPrime uint64 = 1099511628211
)

func hashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * hashPrime
	}
	return (h ^ 0xff) * hashPrime // a terminator: "ab"+"c" is not "a"+"bc"
}

func hashUint64(h, v uint64) uint64 {
	for range 8 {
		h = (h ^ v&0xff) * hashPrime
		v >>= 8
	}
	return h
}

// mix folds a word at once, where hashUint64 takes eight steps.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15 // 2^64 / φ
	return h ^ h>>29
}
