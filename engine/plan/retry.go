package plan

import (
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// RetryBase and RetryMax bound the wait before a retry, which doubles with each: the base is
// client-go's default, the maximum is short enough for a raised quota to be noticed within a
// coffee break. RejectedRetry is the least wait after a rejection, which requires user action.
const (
	RetryBase     = 5 * time.Millisecond
	RetryMax      = 5 * time.Minute
	RejectedRetry = 2 * time.Second
)

// maxPassing is how long a rejection that is expected to pass may last before the object counts as stalled. Tools that
// wait give up on an object that is.
const maxPassing = 10 * time.Minute

// isPassing reports whether an error consists of answers of the API server that it takes back without anyone changing
// the object: a quota that is used up, or not counted yet. It answers Forbidden with a text
// (staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go in k8s.io/kubernetes).
func isPassing(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(each error) bool { return !isPassing(each) })
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		inner := errors.Unwrap(err)
		return inner != nil && isPassing(inner)
	}
	message := status.ErrStatus.Message
	return apierrors.IsForbidden(status) &&
		(strings.Contains(message, "exceeded quota: ") || strings.Contains(message, "status unknown for quota: "))
}

// noteRejection notes a rejection of children: as a problem that is expected to pass, unless it has lasted too long, or
// as one that requires user action.
func (o *Outcome) noteRejection(p *Plan, err error) {
	problem := &Problem{reasonChild, joined(err.Error(), p.phaseMayEnd())}
	if _, isEndless := errors.AsType[children.EndlessError](err); isEndless {
		problem.Reason = reasonEndless
	}
	if !isPassing(err) {
		o.Stalled = problem
		return
	}
	problem.Reason = reasonQuota
	status, _ := p.Object.Object["status"].(map[string]any)
	conditions := conditionsOf(status)
	before := meta.FindStatusCondition(conditions, kind.ConditionReconciling)
	stalled := meta.FindStatusCondition(conditions, kind.ConditionStalled)
	since, limit := p.At, maxPassing
	if before != nil && before.Reason == reasonQuota {
		since = before.LastTransitionTime.Time
	} else if stalled != nil && stalled.Reason == reasonQuota {
		limit = 0 // it has lasted too long before
	}
	if p.Deadline > 0 {
		limit = min(limit, p.Deadline)
	}
	if p.At.Sub(since) >= limit {
		o.Stalled = problem
		return
	}
	o.Passing, o.PassingSince = problem, since
}
