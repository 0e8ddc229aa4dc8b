package operator

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

func TestConversionChange(t *testing.T) {
	t.Parallel()
	require.Equal(t, admission.ConvertPath, crds.ConvertPath)
	converting, plain := kindtest.InCorpus(t, "conversions")[0], kindtest.InCorpus(t, "versions")[0]
	service := func(namespace string, bundle string) crds.Webhook {
		return crds.Webhook{Service: &apiextensionsv1.ServiceReference{Namespace: namespace, Name: "w"}, CABundle: []byte(bundle)}
	}
	at := crds.Webhook{URL: "https://host", CABundle: []byte("ours")}
	for _, test := range []struct {
		name   string
		live   *crds.Webhook // nil is None
		plain  bool
		ours   crds.Webhook
		change change
		err    string
	}{
		{name: "as it should be", live: &at, ours: at, change: keepConversion},
		{name: "none yet", ours: at, change: switchConversion},
		{name: "installed from manifests", live: &crds.Webhook{}, ours: at, change: switchConversion},
		{name: "no authority yet", live: &crds.Webhook{URL: "https://host"}, ours: at, change: applyConversion},
		{name: "a new authority", live: &crds.Webhook{URL: "https://host", CABundle: []byte("old")}, ours: at, change: applyConversion},
		{name: "an authority that others set", live: &at, ours: crds.Webhook{URL: "https://host"}, change: keepConversion},
		{name: "another installation", live: new(service("b", "theirs")), ours: service("a", "ours"), change: keepConversion,
			err: `its objects are converted by another installation, at {"name":"w","namespace":"b","path":"/convert","port":443}`},
		{name: "no conversions any more", live: &at, plain: true, ours: at, change: dropConversion},
		{name: "others convert", live: new(service("b", "theirs")), plain: true, ours: at, change: keepConversion},
		{name: "no conversions", plain: true, ours: at, change: keepConversion},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": "None"}}}}
			if test.live != nil {
				require.NoError(t, crds.CallAt(crd, converting, *test.live))
			}
			k := converting
			if test.plain {
				k = plain
			}
			change, err := conversionChange(crd, k, test.ours)
			require.Equal(t, test.change, change)
			if test.err != "" {
				require.ErrorIs(t, err, errForeign)
				require.ErrorContains(t, err, test.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
