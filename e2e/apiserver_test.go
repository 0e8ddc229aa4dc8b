package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/txtar"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var (
	samples      = flag.Int("samples", 60, "how many objects are generated for each kind")
	foreignKinds = flag.String("kinds", "", "folder with folders of kinds, which TestAPIServerAgrees tries instead of the shipped ones and the corpus")
)

// apiServerLoad is the number of concurrent requests of one test.
const apiServerLoad = 8

// TestAPIServerAgrees sends objects of each kind, shipped and in the corpus, to the API server:
// objects from the archives and generated ones. It compares the results of the CRD with those of
// the compiled form.
func TestAPIServerAgrees(t *testing.T) {
	t.Parallel()
	for _, s := range conformanceSuites(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s := installed(t, s)
			t.Run("create", func(t *testing.T) {
				t.Parallel()
				s.agree(t, s.objects, s.create)
			})
			t.Run("status", func(t *testing.T) {
				t.Parallel()
				existing := s.existing(t)
				s.agree(t, s.statuses(existing), func(ctx context.Context, object map[string]any) request {
					return s.updateStatus(ctx, existing, object)
				})
			})
		})
	}
}

// suite is a kind with objects to submit.
type suite struct {
	name    string
	kind    *kind.Kind
	objects []conformanceObject
	client  dynamic.ResourceInterface
	// namespace is the namespace of the objects; it is empty for cluster-scoped kinds.
	namespace string
}

// conformanceObject is an object with a name that identifies it in failures.
type conformanceObject struct {
	name    string
	content map[string]any
}

// conformanceSuites returns the suites of the shipped kinds and of the corpus, or of foreign kinds.
func conformanceSuites(t *testing.T) []*suite {
	t.Helper()
	if *foreignKinds != "" {
		return foreignSuites(t)
	}
	suites := suitesOf(t, "shipped", kindtest.Shipped(t), nil)
	for _, file := range append(corpus.Archives(t, kindtest.Corpus), corpus.Archives(t, "testdata/apiserver")...) {
		archive := corpus.Read(t, file)
		// The corpus also has kinds that fail to load, which TestCorpus in cue/kind/proof tests.
		kinds, _ := load.FromDir(corpus.Unpack(t, archive))
		suites = append(suites, suitesOf(t, filepath.Base(file), kinds, archive)...)
	}
	installs := make(map[string]string)
	for _, s := range suites {
		crd := s.kind.Name()
		require.NotContains(t, installs, crd, "%s has a kind of the same name, whose CRD would be replaced", s.name)
		installs[crd] = s.name
	}
	return suites
}

// foreignSuites returns the suites of the foreign kinds that load; TestForeignKinds in cue/kind/proof
// fails for the others.
func foreignSuites(t *testing.T) []*suite {
	t.Helper()
	var suites []*suite
	for _, folder := range corpus.FoldersIn(t, *foreignKinds) {
		kinds, _ := load.FromDir(folder)
		suites = append(suites, suitesOf(t, filepath.Base(folder), kinds, nil)...)
	}
	return suites
}

// suitesOf returns a suite for each kind. An object of an archive belongs to the kind that it
// names, whatever its version, except one that a webhook would have to convert, since none runs.
func suitesOf(t *testing.T, name string, kinds []*kind.Kind, archive *txtar.Archive) []*suite {
	t.Helper()
	var suites []*suite
	for _, k := range kinds {
		s := &suite{name: name + "/" + k.GroupVersionKind.Kind, kind: k}
		sample := k.Sampler()
		for seed := range uint64(*samples) {
			s.objects = append(s.objects, conformanceObject{fmt.Sprintf("seed %d", seed), sample(rand.New(rand.NewPCG(seed, 1)))})
		}
		for _, object := range objectsIn(t, archive) {
			isStored := object.content["apiVersion"] == k.GroupVersionKind.GroupVersion().String()
			if object.content["kind"] == k.GroupVersionKind.Kind && (isStored || !k.Versions.Converts()) {
				s.objects = append(s.objects, object)
			}
		}
		suites = append(suites, s)
	}
	return suites
}

func objectsIn(t *testing.T, archive *txtar.Archive) []conformanceObject {
	t.Helper()
	if archive == nil {
		return nil
	}
	var objects []conformanceObject
	for _, f := range archive.Files {
		if filepath.Ext(f.Name) == ".yaml" {
			objects = append(objects, conformanceObject{f.Name, corpus.Object(t, f.Data)})
		}
	}
	return objects
}

// installed installs the kind of a suite, and returns the suite with its objects as they are sent.
func installed(t *testing.T, s *suite) *suite {
	t.Helper()
	config := testcluster.Config(t)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	require.NoError(t, testcluster.InstallCRDs(t.Context(), client, []*kind.Kind{s.kind}, crds.Webhook{}))
	ready := &suite{name: s.name, kind: s.kind, client: client.Resource(s.kind.GroupVersionResource())}
	if s.kind.Scope == apiextensionsv1.NamespaceScoped {
		ready.namespace = testcluster.Namespace(t)
		ready.client = client.Resource(s.kind.GroupVersionResource()).Namespace(ready.namespace)
	}
	require.True(t, testcluster.WaitUntil(func() bool { // the API server serves it a little later than its CRD says
		_, err := ready.client.List(t.Context(), metav1.ListOptions{})
		return !apierrors.IsNotFound(err)
	}), "it is not served")
	for _, object := range s.objects {
		ready.objects = append(ready.objects, conformanceObject{object.name, ready.normalised(t, object.content)})
	}
	return ready
}

// normalised returns an object as both sides get it.
//
// Its metadata is valid, because the API server checks metadata by code of its own and not by the
// CRD, except the length of the name: an error there would hide the errors of the rest. The
// metadata also has no fields that the API server sets or drops. The name, labels and annotations
// stay if they are valid.
//
// The object is encoded as JSON once, in which 1.0 and 1 are the same.
func (s *suite) normalised(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	object = maps.Clone(object)
	given, _ := object["metadata"].(map[string]any)
	metadata := map[string]any{"name": "a"}
	if name, ok := given["name"].(string); ok && len(validation.IsDNS1123Subdomain(name)) == 0 {
		metadata["name"] = name
	}
	if s.namespace != "" {
		metadata["namespace"] = s.namespace
	}
	if labels := validEntries(given["labels"], validation.IsValidLabelValue); len(labels) > 0 {
		metadata["labels"] = labels
	}
	if annotations := validEntries(given["annotations"], func(string) []string { return nil }); len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	object["metadata"] = metadata
	b, err := json.Marshal(object)
	require.NoError(t, err)
	normalised := make(map[string]any)
	require.NoError(t, utiljson.Unmarshal(b, &normalised))
	return normalised
}

// validEntries returns the labels or annotations that the API server accepts.
func validEntries(of any, faults func(value string) []string) map[string]any {
	entries, _ := of.(map[string]any)
	valid := make(map[string]any)
	for key, value := range entries {
		text, ok := value.(string)
		if ok && len(validation.IsQualifiedName(strings.ToLower(key))) == 0 && len(faults(text)) == 0 {
			valid[key] = text
		}
	}
	return valid
}

// request is a request to the API server with its result.
type request struct {
	// object is the object for the compiled form: the one that the request would store.
	object map[string]any
	// concerns reports whether the request can change a field.
	concerns func(field string) bool
	stored   *unstructured.Unstructured
	err      error
}

// create tries to create an object, without its status, which the API server drops before
// validation.
func (s *suite) create(ctx context.Context, object map[string]any) request {
	object = withoutStatus(object)
	r := request{object: object, concerns: func(string) bool { return true }}
	r.stored, r.err = s.client.Create(ctx, unstructuredCopy(object), metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationIgnore,
	})
	return r
}

// updateStatus tries to replace the status of an existing object with that of another.
func (s *suite) updateStatus(ctx context.Context, existing *unstructured.Unstructured, object map[string]any) request {
	r := request{object: object, concerns: func(field string) bool { return field == "status" || strings.HasPrefix(field, "status.") }}
	update := unstructuredCopy(object)
	update.SetResourceVersion(existing.GetResourceVersion())
	r.stored, r.err = s.client.UpdateStatus(ctx, update, metav1.UpdateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationIgnore,
	})
	return r
}

func unstructuredCopy(object map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
}

// existing creates a valid object of the kind. Its name is different from the generated ones, so
// that the others can be created too.
func (s *suite) existing(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	created, err := s.client.Create(t.Context(), unstructuredCopy(s.valid(t)), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.client.Delete(context.Background(), created.GetName(), metav1.DeleteOptions{}))
	})
	return created
}

// valid returns a valid object without a status, named existing: one of the suite's, or if all of
// these are invalid, which happens for large kinds, another that is generated.
func (s *suite) valid(t *testing.T) map[string]any {
	t.Helper()
	const more = 1000
	sample := s.kind.Sampler()
	for i := range len(s.objects) + more {
		var content map[string]any
		if i < len(s.objects) {
			content = s.objects[i].content
		} else {
			content = s.normalised(t, sample(rand.New(rand.NewPCG(uint64(i), 2))))
		}
		object := unstructuredCopy(withoutStatus(content))
		object.SetName("existing")
		if len(s.kind.Problems(object.Object)) == 0 {
			return object.Object
		}
	}
	require.FailNow(t, "no object is valid")
	return nil
}

// statuses returns copies of an existing object, with the status of each object that has one.
func (s *suite) statuses(existing *unstructured.Unstructured) []conformanceObject {
	base := withoutStatus(existing.Object)
	base["metadata"] = map[string]any{"name": existing.GetName()}
	if s.namespace != "" {
		base["metadata"] = map[string]any{"name": existing.GetName(), "namespace": s.namespace}
	}
	var objects []conformanceObject
	for _, object := range s.objects {
		if status, ok := object.content["status"]; ok {
			changed := maps.Clone(base)
			changed["status"] = status
			objects = append(objects, conformanceObject{object.name, changed})
		}
	}
	return objects
}

func withoutStatus(object map[string]any) map[string]any {
	object = maps.Clone(object)
	delete(object, "status")
	return object
}

// verdict is the result of one object.
type verdict int

const (
	// accepted by both sides.
	accepted verdict = iota
	// rejected by both sides.
	rejected
	// admissionOnly is rejected by the compiled form and not by the API server.
	admissionOnly
)

// agree submits each object, and fails for each one that the two sides judge differently.
func (s *suite) agree(t *testing.T, objects []conformanceObject, do func(context.Context, map[string]any) request) {
	t.Helper()
	verdicts, failures := make([]verdict, len(objects)), make([]error, len(objects))
	var group errgroup.Group
	group.SetLimit(apiServerLoad)
	for i, object := range objects {
		group.Go(func() error {
			verdicts[i], failures[i] = s.compare(do(t.Context(), object.content))
			return nil // the others are compared too
		})
	}
	require.NoError(t, group.Wait())
	count := make(map[verdict]int)
	for i, object := range objects {
		if failures[i] != nil {
			t.Errorf("%s: %v\n%s", object.name, failures[i], jsonText(object.content))
		}
		count[verdicts[i]]++
	}
	t.Logf("%d objects: %d accepted, %d rejected, %d rejected only by admission", len(objects), count[accepted], count[rejected], count[admissionOnly])
}

// compare compares the answer of the API server with the compiled form. The error is their
// difference.
func (s *suite) compare(r request) (verdict, error) {
	problems := s.kind.Problems(r.object)
	switch {
	case r.err != nil && !isVerdict(r.err):
		return rejected, fmt.Errorf("the API server did not validate it by the CRD: %w", r.err)
	case r.err != nil && len(problems) == 0:
		return rejected, fmt.Errorf("only the API server rejects it: %w", r.err)
	case r.err != nil:
		return rejected, nil
	case len(problems) == 0:
		return accepted, s.sameDefaults(r)
	}
	// What the API server drops, null and unknown fields, is no longer wrong.
	for _, p := range s.kind.Problems(r.asStored()) {
		if by := s.kind.Versions.RejectedBy(p); by >= schema.CRDSchema && r.concerns(p.Field) {
			return admissionOnly, fmt.Errorf("the API server should reject it too, by the %s: %w (%s)", by, p.Error, p.Rule.Text)
		}
	}
	return admissionOnly, nil
}

// isVerdict reports whether an error means that an object is invalid by its CRD, or has a type that
// the API server cannot read. Metadata is normalised: an error in it is an error of this test,
// except in the name, whose length a CRD may limit.
func isVerdict(err error) bool {
	if apierrors.IsBadRequest(err) {
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsInvalid(err) && !slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.HasPrefix(c.Field, "metadata") && c.Field != "metadata.name"
	})
}

// dropEmptyMetadata removes the empty maps in the metadata of all objects within a value.
func dropEmptyMetadata(value any) {
	switch v := value.(type) {
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok {
			maps.DeleteFunc(metadata, func(_ string, field any) bool {
				inner, ok := field.(map[string]any)
				return ok && len(inner) == 0
			})
		}
		for _, field := range v {
			dropEmptyMetadata(field)
		}
	case []any:
		for _, item := range v {
			dropEmptyMetadata(item)
		}
	}
}

// asStored returns the object that the API server would store, without what it adds.
func (r request) asStored() map[string]any {
	stored := maps.Clone(r.stored.Object)
	stored["metadata"] = r.object["metadata"] // without the fields that the API server sets
	if r.object["status"] == nil {
		delete(stored, "status") // the CRD has one for new objects
	}
	return stored
}

// sameDefaults compares the defaults of an object with those of the object that the API server
// stores.
func (s *suite) sameDefaults(r request) error {
	ours, again := s.kind.Default(r.object), s.kind.Default(r.asStored())
	// The API server drops empty labels and annotations of embedded objects.
	dropEmptyMetadata(ours["spec"])
	dropEmptyMetadata(again["spec"])
	if jsonText(ours) != jsonText(again) {
		return fmt.Errorf("the defaults of the stored object differ:\n  ours %s\n  its  %s", jsonText(ours), jsonText(again))
	}
	return nil
}

// jsonText returns an object as text, with sorted keys.
func jsonText(object any) string {
	b, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestAPIServerAgreesOnUpdates updates an object with immutable fields. In the archive, stored.yaml
// is that object and the others are its updates: those in same leave the immutable fields
// unchanged, those in changed do not, and those in unguarded change a field for which the CRD has
// no rule, because the API server cannot find its former value or CEL cannot name it.
func TestAPIServerAgreesOnUpdates(t *testing.T) {
	t.Parallel()
	archive := corpus.Read(t, corpus.Path(t, "testdata/apiserver/immutable.txtar"))
	kinds := kindtest.FromDir(t, corpus.Unpack(t, archive))
	require.Len(t, kinds, 1)
	u := newUpdates(t, installed(t, suitesOf(t, "immutable", kinds, archive)[0]))
	for _, object := range u.objects {
		group, _, inFolder := strings.Cut(object.name, "/")
		if !inFolder {
			continue
		}
		t.Run(object.name, func(t *testing.T) {
			t.Parallel()
			errs, err := u.try(t.Context(), object.content)
			require.Equal(t, group != "same", len(errs) > 0, "%v", errs)
			for _, err := range errs {
				require.Contains(t, err.Detail, "immutable")
			}
			if group != "changed" {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, "immutable")
		})
	}
	t.Run("generated", func(t *testing.T) {
		t.Parallel()
		u.generated(t)
	})
}

// updates updates an existing object.
type updates struct {
	*suite
	existing *unstructured.Unstructured
}

func newUpdates(t *testing.T, s *suite) updates {
	t.Helper()
	i := slices.IndexFunc(s.objects, func(o conformanceObject) bool { return o.name == "stored.yaml" })
	require.GreaterOrEqual(t, i, 0)
	created, err := s.client.Create(t.Context(), unstructuredCopy(s.objects[i].content), metav1.CreateOptions{})
	require.NoError(t, err)
	return updates{s, created}
}

// try validates an update by the compiled form and by the API server.
func (u updates) try(ctx context.Context, object map[string]any) (field.ErrorList, error) {
	update := unstructuredCopy(object)
	update.SetName(u.existing.GetName())
	update.SetResourceVersion(u.existing.GetResourceVersion())
	_, err := u.client.Update(ctx, update, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationIgnore})
	return u.kind.Check(u.kind.NewBudget(), update.Object).ValidateUpdate(u.kind.Check(u.kind.NewBudget(), u.existing.Object)), err
}

// generated replaces fields of the object with those of generated objects. The API server must
// accept every update that the compiled form accepts.
func (u updates) generated(t *testing.T) {
	t.Helper()
	valid := 0
	for i, object := range u.objects {
		mixed := runtime.DeepCopyJSON(u.existing.Object)
		spec := mixed["spec"].(map[string]any)
		other, _ := object.content["spec"].(map[string]any)
		random := rand.New(rand.NewPCG(uint64(i), 2))
		for _, name := range slices.Sorted(maps.Keys(other)) {
			if random.IntN(6) == 0 {
				spec[name] = other[name]
			}
		}
		errs, err := u.try(t.Context(), mixed)
		if len(errs) == 0 {
			valid++
			require.NoError(t, err, "%s: %s", object.name, jsonText(mixed))
		}
	}
	require.Positive(t, valid)
	t.Logf("%d updates, %d of them accepted", len(u.objects), valid)
}
