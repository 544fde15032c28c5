package udppath

import "time"

// The limits on ICMP errors are those of Linux's icmp_msgs_per_sec and
// icmp_msgs_burst. RFC 1812 4.3.2.8 demands a limit without a number.
const (
	errorsPerSecond = 1000
	errorsBurst     = 50
)

// limiter is a token bucket. Its clock is the time of the last refill.
type limiter struct {
	tokens int
	filled time.Time
}

// refill adds the tokens of the time since the last call.
func (l *limiter) refill(now time.Time) {
	if l.filled.IsZero() {
		l.tokens, l.filled = errorsBurst, now
		return
	}
	const each = time.Second / errorsPerSecond
	earned := now.Sub(l.filled) / each
	switch {
	case earned <= 0:
		return
	case earned >= errorsBurst:
		l.tokens, l.filled = errorsBurst, now
	default:
		// The remainder of the division stays for the next refill.
		l.tokens = min(l.tokens+int(earned), errorsBurst)
		l.filled = l.filled.Add(earned * each)
	}
}

// take reports whether there was a token, and takes it.
func (l *limiter) take() bool {
	if l.tokens == 0 {
		return false
	}
	l.tokens--
	return true
}
