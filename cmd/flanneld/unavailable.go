package main

import (
	"flag"
	"fmt"
)

// notInThisBuild lists, with the values that ask for them, the functions that
// are known and yet to come.
var notInThisBuild = [...]struct{ flag, asked string }{
	{"kube-subnet-mgr", "true"},
}

// unavailable tells that a flag's function is not there.
func unavailable(name string) (text string, is bool) {
	for _, n := range notInThisBuild {
		if n.flag == name {
			return "not available in this build", true
		}
	}
	return "", false
}

// askedInVain returns an error if a flag asks for what this build lacks.
func askedInVain(fs *flag.FlagSet) (err error) {
	given := map[string]*flag.Flag{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = f })
	for _, n := range notInThisBuild {
		if f := given[n.flag]; f != nil && f.Value.String() == n.asked {
			return fmt.Errorf("--%s is not available in this build", n.flag)
		}
	}
	return nil
}
