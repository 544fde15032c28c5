package world

// FNV-1a is short, fast on short strings and the same on every machine.
const (
	HashStart uint64 = 14695981039346656037
	HashPrime uint64 = 1099511628211
)

// HashString folds a string into a hash.
func HashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * HashPrime
	}
	return (h ^ 0xff) * HashPrime // a terminator: "ab"+"c" is not "a"+"bc"
}

// HashUint64 folds the bytes of a word into a hash.
func HashUint64(h, v uint64) uint64 {
	for range 8 {
		h = (h ^ v&0xff) * HashPrime
		v >>= 8
	}
	return h
}

// Mix folds a word into a hash in one step, where HashUint64 takes eight.
func Mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15 // 2^64 / φ
	return h ^ h>>29
}
