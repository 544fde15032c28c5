package statements

import "fmt"

func statements(g func() (int, int, int)) {
	a := 0
	if a = 1; a > 0 { // want "initialiser of this if changes state"
		a--
	}
	if b := a; b > 0 {
		a--
	}
	switch a++; a { // want "initialiser of this switch changes state"
	case 1: // want "a case without statements"
	case 2:
		a--
	}
	b, c, d := 1, 2, 3    // want "assigns three values"
	b, c, d = g()         // want "assigns three values"
	var e, f, h = b, c, d // want "declares three values"
	i, j, k := g()
	fmt.Sprint(e, f, h, i, j, k)
}
