// Package pace stretches the deadlines of tests on a slow machine.
//
// A deadline in a test bounds how long a failure takes to show. It holds for a
// machine of usual speed; on an emulated one a correct program needs many times
// longer. The program that starts such a machine measures how much slower it is and
// says so in the environment. The package measures nothing itself, and it is no remedy
// for a test that waits for time to pass instead of for a condition.
package pace

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"
)

// Env names the variable that holds how many times slower than usual this machine is.
const Env = "FLANNEL_LAB_SLOWNESS"

// Slowness returns how many times slower than usual this machine is: at least 1.
func Slowness() float64 {
	text := os.Getenv(Env)
	if text == "" {
		return 1
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 1) || math.IsInf(f, 1) {
		panic(fmt.Sprintf("%s=%q: want a number that is at least 1", Env, text))
	}
	return f
}

// Scale returns a deadline for this machine.
func Scale(d time.Duration) time.Duration { return time.Duration(float64(d) * Slowness()) }
