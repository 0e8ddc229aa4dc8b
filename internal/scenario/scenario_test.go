package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/load"
)

// Each error names the line that is wrong, and all are told at once.
func TestParseNamesTheLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "s:1: there is no command: write one a line, before the first file; see 'fescue test --help'",
		"# only a comment":                  "s:1: there is no command: write one a line, before the first file; see 'fescue test --help'",
		"jump":                              `s:1: unknown command "jump"; the commands are allow, apply, delete, fail, get, hold, now, patch, reject, release, restart, succeed, wait`,
		"wait\n\nwait -1s":                  "s:1: invalid duration \"\": must be like 90s, 10m or 168h\ns:3: invalid duration \"-1s\": must be like 90s, 10m or 168h",
		"restart\nnow 2030-01-01T00:00:00Z": "s:2: now must be the first command",
		"restart x":                         "s:1: write: restart",
		"apply":                             "s:1: write: apply FILE...",
		"apply a.yaml":                      "s:1: the archive has no file a.yaml",
		"! delete pod/a":                    "s:1: ! is for apply and patch, which the API server can reject, and for get, if the object does not exist",
		"delete pod":                        `s:1: invalid object "pod": must be TYPE/[NAMESPACE/]NAME, like pod/hello`,
		"reject read pod no":                `s:1: unknown verb "read": must be create, patch or delete`,
		"allow create pod no":               "s:1: write: allow VERB[,VERB] TYPE[/[NAMESPACE/]NAME]",
		"restart\n-- a.yaml --\n":           "s:2: no command names the file a.yaml",
	} {
		_, err := Parse("s", []byte(text))
		require.EqualError(t, err, want, text)
	}
}

// What is expected belongs to the command of the same text, also if steps were added or removed since.
func TestWantIsOfItsStep(t *testing.T) {
	t.Parallel()
	s, err := Parse("s", []byte("wait 1s\nrestart\nwait  1s\n-- after wait 1s --\na\n-- after gone --\nb\n-- after wait 1s --\nc\n"))
	require.NoError(t, err)
	var wants []string
	for _, step := range s.Steps {
		want, ok := step.Want()
		require.Equal(t, step.Verb == "wait", ok)
		wants = append(wants, want)
	}
	require.Equal(t, []string{"a\n", "", "c\n"}, wants)
}

// A step that fails ends the scenario with its place; what was there before is returned.
func TestRunEndsWithTheStepThatFails(t *testing.T) {
	t.Parallel()
	kinds, err := load.All(true)
	require.NoError(t, err)
	s, err := Parse("s", []byte(`
apply at.yaml
get pod/early-pod
wait 1h
-- at.yaml --
apiVersion: cnat.fescue.dev/v1alpha1
kind: At
metadata: {name: early}
spec: {schedule: "2030-06-01T00:00:00Z", command: "true"}
`))
	require.NoError(t, err)
	outputs, err := s.Run(kinds)
	require.ErrorContains(t, err, "s:3: get pod/early-pod: ")
	require.Len(t, outputs, 1)
	require.Contains(t, outputs[0], "phase: PENDING")
	require.Contains(t, outputs[0], "wakeAt: 2030-06-01T00:00:00Z")

	s.Steps[1].Fails = true
	outputs, err = s.Run(kinds)
	require.NoError(t, err)
	require.Equal(t, "it does not exist\n", outputs[1])
}
