package admission

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fescue-dev/fescue/cue/kind"
)

func TestPodSecurity(t *testing.T) {
	t.Parallel()
	const restricted = `"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}`
	k := injectingFence(t)
	for name, test := range map[string]struct {
		pod             string // what the object injects
		was             bool   // whether it did before
		level           string
		allowPrivileged bool
		message         string
	}{
		"a container":               {pod: `{"spec":{"containers":[{"name":"a","image":"b"}]}}`},
		"in baseline":               {pod: `{"spec":{"containers":[{"name":"a","image":"b"}]}}`, level: "baseline"},
		"too much for it":           {pod: `{"spec":{"initContainers":[{"name":"a","image":"b","securityContext":{"capabilities":{"add":["NET_ADMIN"]}}}]}}`, level: "baseline", message: `what it injects violates PodSecurity "baseline:latest": non-default capabilities`},
		"in restricted":             {pod: `{"spec":{"containers":[{"name":"a","image":"b",` + restricted + `}]}}`, level: "restricted"},
		"a volume without a source": {pod: `{"spec":{"volumes":[{"name":"a"}]}}`, level: "restricted"}, // the API server makes it an emptyDir
		"too little for it":         {pod: `{"spec":{"containers":[{"name":"a","image":"b"}]}}`, level: "restricted", message: `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`},
		"root for it":               {pod: `{"spec":{"containers":[{"name":"a","image":"b","securityContext":{"runAsNonRoot":false,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}`, level: "restricted", message: `runAsNonRoot != true`},
		"no such level":             {pod: `{"spec":{}}`, level: "strict", message: `the namespace "default" has no valid Pod Security level`},
		"privileged":                {pod: `{"spec":{"containers":[{"name":"a","securityContext":{"privileged":true}}]}}`, message: `spec: Forbidden: must not inject the privileged container "a"; Fescue's flag --allow-privileged-injection allows it`},
		"privileged, allowed":       {pod: `{"spec":{"containers":[{"name":"a","securityContext":{"privileged":true}}]}}`, allowPrivileged: true},
		"allowed, but not by the namespace": {
			pod: `{"spec":{"containers":[{"name":"a","securityContext":{"privileged":true}}]}}`, allowPrivileged: true, level: "baseline", message: `violates PodSecurity "baseline:latest": privileged`,
		},
		"host path":             {pod: `{"spec":{"volumes":[{"name":"root","hostPath":{"path":"/"}}]}}`, message: `must not inject the hostPath volume "root"`},
		"host network":          {pod: `{"spec":{"hostNetwork":true}}`, message: "must not inject the host's namespaces"},
		"host process":          {pod: `{"spec":{"initContainers":[{"name":"a","securityContext":{"windowsOptions":{"hostProcess":true}}}]}}`, message: `must not inject the host process container "a"`},
		"host process of a Pod": {pod: `{"spec":{"securityContext":{"windowsOptions":{"hostProcess":true}}}}`, message: "must not inject a host process"},
		"no part of a Pod":      {pod: `{"spec":{"containers":"a"}}`, message: "nothing can be injected from it"},
		"no part, as before":    {pod: `{"spec":{"containers":"a"}}`, was: true, message: "does not inject a part of a Pod"},
		"unknown fields":        {pod: `{"spec":{"future":{"containers":1}}}`, level: "restricted"},
		"not privileged":        {pod: `{"spec":{"containers":[{"name":"a","securityContext":{"privileged":false}}],"hostNetwork":false}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labels := func(_ context.Context, namespace string) (map[string]string, error) {
				require.Equal(t, "default", namespace)
				if test.level == "" {
					return nil, nil
				}
				return map[string]string{"pod-security.kubernetes.io/enforce": test.level}, nil
			}
			podSecurity, err := NewPodSecurity(labels, test.allowPrivileged)
			require.NoError(t, err)
			object := func(colour string) string {
				return `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"colour":"` + colour + `","pod":` + test.pod + `}}`
			}
			old := ""
			if test.was {
				old = object("white")
			}
			request := requestFor(t, k, object("green"), old)
			response, err := newObjects([]*kind.Kind{k}, nil, podSecurity).validate(context.Background(), request)
			require.NoError(t, err)
			require.Equal(t, test.message == "", response.Allowed, "%v", response.Result)
			if test.message != "" {
				require.Contains(t, response.Result.Message, test.message)
				require.EqualValues(t, 422, response.Result.Code)
			}
		})
	}
}

// Nothing is allowed in a namespace before its level is known.
func TestPodSecurityOfAnUnknownNamespace(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset() // its namespaces are never read
	for name, test := range map[string]struct {
		kind    *kind.Kind
		message string
	}{
		"injects":         {injectingFence(t), `pod security of the namespace "default": the namespaces are still being read`},
		"injects nothing": {fence(t), ""},
	} {
		podSecurity, err := NewPodSecurity(NewNamespaces(client, nil).Labels, false)
		require.NoError(t, err)
		request := requestFor(t, test.kind, `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{}}`, "")
		response, err := newObjects([]*kind.Kind{test.kind}, nil, podSecurity).validate(t.Context(), request)
		if test.message == "" {
			require.NoError(t, err, name)
			require.True(t, response.Allowed, name)
			continue
		}
		require.EqualError(t, err, test.message, name)
		require.Nil(t, response, "it is neither allowed nor rejected")
	}
}
