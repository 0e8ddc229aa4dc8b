package plan

import "time"

// RetryBase and RetryMax bound the wait before a retry, which doubles with each: the base is
// client-go's default, the maximum is short enough for a raised quota to be noticed within a
// coffee break. RejectedRetry is the least wait after a rejection, which requires user action.
const (
	RetryBase     = 5 * time.Millisecond
	RetryMax      = 5 * time.Minute
	RejectedRetry = 2 * time.Second
)
