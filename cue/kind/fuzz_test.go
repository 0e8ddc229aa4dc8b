package kind

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/json"
)

// FuzzObject feeds any JSON object to a kind: nothing panics, a valid object stays valid
// when it is defaulted, defaulting twice is defaulting once, and what is decided is the
// same every time.
func FuzzObject(f *testing.F) {
	kinds, err := Shipped()
	require.NoError(f, err)
	k := kinds[0]
	f.Add([]byte(`{"apiVersion":"cnat.fescue.dev/v1alpha1","kind":"At","metadata":{"name":"a"},"spec":{"schedule":"2020-11-16T10:12:00Z","command":"echo"}}`))
	f.Add([]byte(`{"apiVersion":"cnat.fescue.dev/v1alpha1","kind":"At","metadata":{"name":"a"},"spec":{"schedule":"2020-13-16T10:12:00Z","command":"","image":1}}`))
	f.Add([]byte(`{"spec":[{"schedule":null}],"status":{"phase":"RUNNING","conditions":[1]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		object := make(map[string]any)
		if json.Unmarshal(text, &object) != nil || object == nil {
			return
		}
		if errs := k.Validate(object); len(errs) > 0 {
			for _, err := range errs {
				require.NotEmpty(t, err.Error())
			}
			return
		}
		once, err := k.Default(object)
		require.NoError(t, err)
		require.Empty(t, k.Validate(once))
		twice, err := k.Default(once)
		require.NoError(t, err)
		require.Equal(t, once, twice)
		first, errFirst := k.Decide(once, nil)
		second, errSecond := k.Decide(once, nil)
		require.Equal(t, first, second)
		require.Equal(t, errFirst, errSecond)
	})
}

// FuzzTrigger compares with the standard library: a trigger is a time or a duration.
func FuzzTrigger(f *testing.F) {
	f.Add("2020-11-16T10:12:00Z")
	f.Add("5m")
	f.Add("-1h")
	entered := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		trigger, err := ParseTrigger(text)
		at, errAt := time.Parse(time.RFC3339, text)
		delay, errDelay := time.ParseDuration(text)
		switch {
		case errAt == nil && !at.IsZero():
			require.True(t, trigger.Due(entered).Equal(at))
		case errAt != nil && errDelay == nil && delay >= 0:
			require.Equal(t, entered.Add(delay), trigger.Due(entered))
		case errAt != nil:
			require.Error(t, err)
		}
	})
}
