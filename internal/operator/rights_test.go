package operator

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fescue-dev/fescue/crds/install"
)

// What one review of the rules shows is not asked for again, for any kind. Everything else is.
func TestRightsAreReviewedTogether(t *testing.T) {
	t.Parallel()
	create := install.Right{Group: "example.com", Resource: "things", Verb: "create"}
	status := install.Right{Group: "example.com", Resource: "things/status", Verb: "update"}
	named := install.Right{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Verb: "get", Name: "things.example.com"}
	rule := func(group, resource, verb string, names ...string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}, ResourceNames: names}
	}
	all := []authorizationv1.ResourceRule{
		rule("example.com", "things", "create"), rule("example.com", "things/status", "update"), rule("apiextensions.k8s.io", "customresourcedefinitions", "get", "other", "things.example.com"),
	}
	for name, tc := range map[string]struct {
		rules      []authorizationv1.ResourceRule
		incomplete bool
		err        error
		asked      []string // one by one
	}{
		"all are shown":   {rules: all},
		"wildcards":       {rules: []authorizationv1.ResourceRule{rule("*", "*", "*")}},
		"one is missing":  {rules: all[1:], asked: []string{"things"}},
		"another name":    {rules: append([]authorizationv1.ResourceRule{rule("apiextensions.k8s.io", "customresourcedefinitions", "get", "other")}, all[:2]...), asked: []string{"customresourcedefinitions"}},
		"limited to name": {rules: append([]authorizationv1.ResourceRule{rule("example.com", "things", "create", "a")}, all[1:]...), asked: []string{"things"}},
		"not all known":   {rules: all, incomplete: true, asked: []string{"things", "things", "customresourcedefinitions"}},
		"not answered":    {rules: all, err: errors.New("no"), asked: []string{"things", "things", "customresourcedefinitions"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			var reviews, asked []string
			client.PrependReactor("create", "selfsubjectrulesreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectRulesReview)
				reviews = append(reviews, review.Spec.Namespace)
				review.Status = authorizationv1.SubjectRulesReviewStatus{ResourceRules: tc.rules, Incomplete: tc.incomplete}
				return true, review, tc.err
			})
			client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
				asked = append(asked, review.Spec.ResourceAttributes.Resource)
				return true, review, nil
			})
			r := &rights{client: client.AuthorizationV1()}
			for _, right := range []install.Right{create, status, named} {
				before := len(asked)
				allowed, err := r.allow(t.Context(), right, "")
				require.NoError(t, err)
				require.Equal(t, len(asked) == before, allowed, right) // the API server denies what it is asked for
			}
			require.Equal(t, tc.asked, asked)
			require.Equal(t, []string{noNamespace}, reviews)
			_, err := r.allow(t.Context(), create, "team")
			require.NoError(t, err)
			require.Equal(t, []string{noNamespace, "team"}, reviews)
		})
	}
}
