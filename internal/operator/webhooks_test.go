package operator

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// Another name of the configurations implies another Secret, unless a flag names it.
func TestWebhookSecret(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 240)
	for name, test := range map[string]struct {
		args []string
		want string
		err  string
	}{
		"a URL":                      {args: []string{"--webhook-url=https://a"}, want: "default/fescue-webhook-certificate"},
		"a Service":                  {args: []string{"--webhook-service=b/a"}, want: "b/fescue-webhook-certificate"},
		"another configuration":      {args: []string{"--webhook-url=https://a", "--webhook-configuration=mine"}, want: "default/mine-webhook-certificate"},
		"another one with a Service": {args: []string{"--webhook-service=b/a", "--webhook-configuration=mine"}, want: "b/mine-webhook-certificate"},
		"named":                      {args: []string{"--webhook-url=https://a", "--webhook-configuration=mine", "--webhook-secret=x/y"}, want: "x/y"},
		"not a valid name of a Secret": {args: []string{"--webhook-url=https://a", "--webhook-configuration=" + long},
			err: `--webhook-secret: invalid name "` + long + `-webhook-certificate": must be no more than 253 `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := webhookOptionsOf(t, test.args)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, o.secretNamespace+"/"+o.secretName)
		})
	}
	for _, namespaces := range [][]string{nil, {"a"}} { // an installation names the Secret that its rights cover
		w := InstalledWebhooks(nil, install.Options{Namespace: "own", Namespaces: namespaces})
		o, err := webhookOptionsOf(t, w.Args)
		require.NoError(t, err)
		require.Equal(t, "own/"+w.Secret, o.secretNamespace+"/"+o.secretName)
	}
}

// webhookOptionsOf completes the options of a command line.
func webhookOptionsOf(t *testing.T, args []string) (*webhookOptions, error) {
	t.Helper()
	var o webhookOptions
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(flags)
	require.NoError(t, flags.Parse(args))
	return &o, o.complete()
}

func TestAnswersTLS(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	require.ErrorContains(t, answersTLS(t.Context(), plain.Listener.Addr()), "does not look like a TLS handshake")
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	require.NoError(t, answersTLS(t.Context(), secure.Listener.Addr()))
	secure.Close()
	require.ErrorContains(t, answersTLS(t.Context(), secure.Listener.Addr()), "refused")
}

// A failed check of a kind's prerequisites does not count as a missing prerequisite.
func TestFollowDistinguishesFailureFromAbsence(t *testing.T) {
	t.Parallel()
	kinds := kindtest.Shipped(t)
	client, err := dynamic.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"})
	require.NoError(t, err)
	pods, err := admission.NewPods(admission.PodsConfig{Informers: informers.New(t.Context(), informers.Decoded(client), nil), Kinds: kinds})
	require.NoError(t, err)
	w := &webhooks{pods: pods}
	follow := func(missing error) {
		for _, k := range kinds {
			w.follow(k, missing)
		}
	}
	follow(errors.New("review the operator's rights: context deadline exceeded"))
	require.ErrorContains(t, pods.Ready(), "are still being read")
	follow(errors.Join(errors.New("ask for the types of children: no answer"), engine.Absent("missing rights: list watchers.watch.fescue.dev")))
	require.NoError(t, pods.Ready())
}
