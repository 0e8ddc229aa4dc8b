package kind

import (
	"fmt"
	"time"
)

// ParseDeadline reads how long an object may take to become ready.
func ParseDeadline(text string) (time.Duration, error) {
	deadline, err := time.ParseDuration(text)
	if err != nil || deadline <= 0 {
		return 0, fmt.Errorf("%q must be a duration like \"5m\"", text)
	}
	return deadline, nil
}
