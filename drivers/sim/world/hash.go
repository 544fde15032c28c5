package world

// FNV-1a is short, fast on short strings and the same on every machine.
const (
	HashStart uint64 = 14695981039346656037
	HashPrime uint64 = 1099511628211
)

func HashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * HashPrime
	}
	return (h ^ 0xff) * HashPrime // a terminator: "ab"+"c" is not "a"+"bc"
}

func HashUint64(h, v uint64) uint64 {
	for range 8 {
		h = (h ^ v&0xff) * HashPrime
		v >>= 8
	}
	return h
}

// Mix folds a word in one step, where hashUint64 takes eight.
func Mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15 // 2^64 / φ
	return h ^ h>>29
}
