package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// reviewer is an API server that allows some users some resources, or only one verb on them, and
// records its requests.
type reviewer struct {
	mu      sync.Mutex
	asked   []authorizationv1.SubjectAccessReviewSpec
	allowed map[string][]string
	err     error
}

func (r *reviewer) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, review.Spec)
	answer := review.DeepCopy()
	of := review.Spec.ResourceAttributes
	answer.Status.Allowed = slices.ContainsFunc(r.allowed[review.Spec.User], func(right string) bool {
		return right == of.Resource || right == of.Verb+" "+of.Resource
	})
	return answer, r.err
}

// questions returns what was asked, as "VERB RESOURCE NAME in NAMESPACE".
func (r *reviewer) questions() (asked []string) {
	for _, review := range r.asked {
		of := review.ResourceAttributes
		asked = append(asked, strings.TrimSpace(fmt.Sprintf("%s %s %s in %s", of.Verb, of.Resource, of.Name, of.Namespace)))
	}
	return asked
}

// noTypes returns a mapper that knows no type.
func noTypes() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

func TestRights(t *testing.T) {
	t.Parallel()
	const (
		green = `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{}}`
		white = `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"colour":"white"}}`
		// greenAgain is green with its default, a label and a status.
		greenAgain = `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"colour":"green"},"status":{"observedGeneration":1}}`
	)
	for name, test := range map[string]struct {
		user        string
		object, old string
		injects     bool
		err         error
		message     string
		asked       []string
	}{
		"with the right":               {user: "ada", object: green, asked: []string{"configmaps"}},
		"without":                      {user: "bob", object: green, asked: []string{"configmaps"}, message: `fences.fences.example.com "a" is forbidden: user "bob" cannot create resource "configmaps" in API group "" in the namespace "default", which the kind Fence does on behalf of the user`},
		"an injecting kind needs Pods": {user: "ada", object: green, injects: true, asked: []string{"configmaps", "pods"}, message: `fences.fences.example.com "a" is forbidden: user "ada" cannot create resource "pods" in API group "" in the namespace "default", which the kind Fence does on behalf of the user`},
		"all missing rights are named": {user: "bob", object: green, injects: true, asked: []string{"configmaps", "pods"}, message: `fences.fences.example.com "a" is forbidden: user "bob" cannot create resource "configmaps" in API group "" in the namespace "default"; user "bob" cannot create resource "pods" in API group "" in the namespace "default", which the kind Fence does on behalf of the user`},
		"a changed spec":               {user: "bob", object: white, old: green, asked: []string{"configmaps"}, message: `cannot create resource "configmaps"`},
		"an unchanged spec":            {user: "bob", object: greenAgain, old: green},
		"a spec that was defaulted":    {user: "bob", object: green, old: greenAgain},
		"Fescue itself":                {user: "fescue", object: green},
		"the garbage collector":        {user: "system:serviceaccount:kube-system:generic-garbage-collector", object: white, old: green},
		"no answer":                    {user: "ada", object: green, err: errors.New("no quorum"), asked: []string{"configmaps"}, message: `Internal error occurred: check the rights of user "ada": no quorum`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reviewer{allowed: map[string][]string{"ada": {"configmaps"}}, err: test.err}
			k := fence(t)
			if test.injects {
				k = injectingFence(t)
			}
			objects := newObjects([]*kind.Kind{k}, NewRights(r, noTypes(), []*kind.Kind{k}, "fescue"), nil)
			request := requestFor(t, k, test.object, test.old)
			request.UserInfo.Username = test.user
			response, err := objects.validate(context.Background(), request)
			require.NoError(t, err)
			var asked []string
			for _, spec := range r.asked {
				require.Equal(t, "create", spec.ResourceAttributes.Verb)
				require.Equal(t, "default", spec.ResourceAttributes.Namespace)
				asked = append(asked, spec.ResourceAttributes.Resource)
			}
			require.Equal(t, test.asked, asked)
			require.Equal(t, test.message == "", response.Allowed)
			if test.message != "" {
				require.Contains(t, response.Result.Message, test.message)
				if test.err == nil {
					require.EqualValues(t, http.StatusForbidden, response.Result.Code)
				}
			}
		})
	}
}

// The author also needs the rights for what children of Fescue's kinds create, because Fescue
// creates these as an exempt user. Here two kinds create each other.
func TestRightsOfChildren(t *testing.T) {
	t.Parallel()
	const text = `package kinds

import (
	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)

#Egg: {
	apiVersion!: "farm.example.com/v1"
	kind!:       "Egg"
	metadata!:   k8s.#ObjectMeta
	status?:     contract.#Status
}
#EggController: contract.#Controller & {
	object!: #Egg
	names: plural: "eggs"
	children: hen: template: {apiVersion: "farm.example.com/v1", kind: "Hen"}
	children: config: template: {apiVersion: "v1", kind: "ConfigMap"}
}

#Hen: {
	apiVersion!: "farm.example.com/v1"
	kind!:       "Hen"
	metadata!:   k8s.#ObjectMeta
	status?:     contract.#Status
}
#HenController: contract.#Controller & {
	object!: #Hen
	names: plural: "hens"
	children: egg: template: {apiVersion: "farm.example.com/v1", kind: "Egg"}
}
`
	const eggsInject = text + `#EggController: inject: {annotation: "farm.example.com/inject", add: {}}
`
	for name, test := range map[string]struct {
		kind    string
		injects bool
		allowed []string
		message string
	}{
		"of its own child":     {kind: "Egg", allowed: []string{"eggs", "hens"}, message: `eggs.farm.example.com "a" is forbidden: user "ada" cannot create resource "configmaps" in API group "" in the namespace "default", which the kind Egg does on behalf of the user`},
		"of a child's child":   {kind: "Hen", allowed: []string{"eggs", "hens"}, message: `hens.farm.example.com "a" is forbidden: user "ada" cannot create resource "configmaps" in API group "" in the namespace "default" (through the kind Egg), which the kind Hen does on behalf of the user`},
		"its own kind again":   {kind: "Egg", allowed: []string{"hens", "configmaps"}, message: `cannot create resource "eggs" in API group "farm.example.com" in the namespace "default" (through the kind Hen)`},
		"a child that injects": {kind: "Hen", injects: true, allowed: []string{"eggs", "hens", "configmaps"}, message: `cannot create resource "pods" in API group "" in the namespace "default" (through the kind Egg)`},
		"with all rights":      {kind: "Hen", injects: true, allowed: []string{"eggs", "hens", "configmaps", "pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reviewer{allowed: map[string][]string{"ada": test.allowed}}
			kinds := kindtest.From(t, text)
			if test.injects {
				kinds = kindtest.From(t, eggsInject)
			}
			objects := newObjects(kinds, NewRights(r, noTypes(), kinds), nil)
			object := `{"apiVersion":"farm.example.com/v1","kind":"` + test.kind + `","metadata":{"name":"a"}}`
			response, err := objects.validate(t.Context(), requestFor(t, kindtest.Named(t, kinds, test.kind), object, ""))
			require.NoError(t, err)
			require.Equal(t, test.message == "", response.Allowed)
			if test.message != "" {
				require.Contains(t, response.Result.Message, test.message)
				require.Equal(t, 1, strings.Count(response.Result.Message, "cannot"), response.Result.Message)
			}
		})
	}
}

// The children of a cluster-scoped object are asked about in their namespaces, and what those need in the
// same ones.
func TestRightsInTheNamespacesOfChildren(t *testing.T) {
	t.Parallel()
	const text = `
package farm

import "fescue.dev/cue/contract"

#Farm: {apiVersion!: "farm.example.com/v1", kind!: "Farm", metadata!: {name!: string, ...}, spec!: {fields!: [...string]}, status?: {contract.#Status, chosen?: string}}
#FarmController: contract.#Controller & {
	object!: #Farm
	names: plural: "farms"
	scope: "Cluster"
	owns: [{apiVersion: "farm.example.com/v1", kind: "Hen"}, {apiVersion: "v1", kind: "Secret"}]
	children: {
		for f in object.spec.fields {"hen-\(f)": template: {apiVersion: "farm.example.com/v1", kind: "Hen", metadata: {name: "hen", namespace: f}}}
		barn: template: {apiVersion: "v1", kind: "Namespace", metadata: name: "barn"}
		if object.status.chosen != _|_ {secret: template: {apiVersion: "v1", kind: "Secret", metadata: {name: "s", namespace: object.status.chosen}}}
	}
}
#Hen: {apiVersion!: "farm.example.com/v1", kind!: "Hen", metadata!: {name!: string, namespace?: string, ...}, status?: contract.#Status}
#HenController: contract.#Controller & {
	object!: #Hen
	observed: _
	names: plural: "hens"
	reads: food: {apiVersion: "v1", kind: "ConfigMap", name: "food"}
	children: egg: template: {apiVersion: "v1", kind: "Pod", metadata: labels: food: observed.food.metadata.name}
}
`
	set, err := load.All(false, corpus.Folder(t, text))
	require.NoError(t, errors.Join(err, set.BrokenError()))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	for _, k := range []string{"ConfigMap", "Pod", "Secret"} {
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: k}, meta.RESTScopeNamespace)
	}
	r := &reviewer{allowed: map[string][]string{"ada": {"hens", "namespaces", "secrets", "configmaps", "pods"}}}
	objects := newObjects(set.All(), NewRights(r, mapper, set.All()), nil)
	request := requestFor(t, kindtest.Named(t, set.All(), "Farm"), `{"apiVersion":"farm.example.com/v1","kind":"Farm","metadata":{"name":"a"},"spec":{"fields":["x","y"]}}`, "")
	request.Namespace = ""
	response, err := objects.validate(t.Context(), request)
	require.NoError(t, err)
	require.True(t, response.Allowed, "%v", response.Result)
	require.ElementsMatch(t, []string{
		"create hens  in x", "create hens  in y", "create pods  in x", "create pods  in y", "get configmaps food in x", "get configmaps food in y",
		"create namespaces  in", "create secrets  in",
	}, r.questions())
}

// The API server asks the operator whether it may bind a role, and so admission asks the author: for the role of the
// kind, or for any where the author may choose it, in the namespace of the binding.
func TestRightsToBind(t *testing.T) {
	t.Parallel()
	const text = `
package guests

import "fescue.dev/cue/contract"

#Guest: {apiVersion!: "guests.example.com/v1", kind!: "Guest", metadata!: {name!: string, namespace?: string, ...}, spec!: {role!: string}, status?: contract.#Status}
#GuestController: contract.#Controller & {
	object!: #Guest
	names: plural: "guests"
	children: {
		reads: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view"}}
		chosen: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", metadata: namespace: "other", roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: object.spec.role}}
		all: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRoleBinding", metadata: name: object.metadata.name, roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "lists"}}
		role: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", rules: [{apiGroups: [""], resources: ["pods"], verbs: ["get"]}]}
	}
}
#Party: {apiVersion!: "guests.example.com/v1", kind!: "Party", metadata!: {name!: string, namespace?: string, ...}, spec!: {role!: string}, status?: contract.#Status}
#PartyController: contract.#Controller & {
	object!: #Party
	names: plural: "parties"
	children: guest: template: {apiVersion: "guests.example.com/v1", kind: "Guest", spec: role: object.spec.role}
}
`
	set, err := load.All(false, corpus.Folder(t, text))
	require.NoError(t, errors.Join(err, set.BrokenError()))
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range []string{"ClusterRole", "ClusterRoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(k), meta.RESTScopeRoot)
	}
	for _, k := range []string{"Role", "RoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(k), meta.RESTScopeNamespace)
	}
	for of, want := range map[string][]string{
		"Guest": {
			"create rolebindings  in default", "create rolebindings  in other", "create clusterrolebindings  in", "create roles  in default",
			"bind clusterroles view in default", "bind clusterroles view in other", "bind roles  in default", "bind roles  in other",
			"bind clusterroles lists in", "escalate roles  in default",
		},
		"Party": { // where a Guest has its bindings is not known before it exists
			"create guests  in default", "create rolebindings  in", "create clusterrolebindings  in", "create roles  in default",
			"bind clusterroles view in", "bind roles  in", "bind clusterroles lists in", "escalate roles  in default",
		},
	} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			r := &reviewer{allowed: map[string][]string{"ada": {"guests", "rolebindings", "clusterrolebindings", "roles", "clusterroles"}}}
			objects := newObjects(set.All(), NewRights(r, mapper, set.All()), nil)
			request := requestFor(t, kindtest.Named(t, set.All(), of), `{"apiVersion":"guests.example.com/v1","kind":"`+of+`","metadata":{"name":"a","namespace":"default"},"spec":{"role":"x"}}`, "")
			response, err := objects.validate(t.Context(), request)
			require.NoError(t, err)
			require.True(t, response.Allowed, "%v", response.Result)
			require.ElementsMatch(t, want, r.questions())
		})
	}
}

// Who uses a self-service kind needs rights only to what the object chooses, and to what kinds within it choose.
func TestRightsOfSelfService(t *testing.T) {
	t.Parallel()
	const text = `
package rooms

import "fescue.dev/cue/contract"

#Room: {apiVersion!: "rooms.example.com/v1", kind!: "Room", metadata!: {name!: string, namespace?: string, ...}, spec!: {role!: string, at!: string}, status?: contract.#Status}
#RoomController: contract.#Controller & {
	object!: #Room
	observed: _
	names: plural: "rooms"
	userRights: "Kind"
	reads: {
		own: {apiVersion: "v1", kind: "Secret", name: "own"}
		shared: {apiVersion: "v1", kind: "Secret", namespace: "platform", name: "shared"}
		named: {apiVersion: "v1", kind: "Secret", name: object.spec.at}
		elsewhere: {apiVersion: "v1", kind: "Secret", namespace: object.spec.at, name: "elsewhere"}
		all: {apiVersion: "v1", kind: "ConfigMap", selector: matchLabels: a: "b"}
	}
	_binding: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding"}
	_role: {apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: string}
	children: {
		hen: template: {apiVersion: "rooms.example.com/v1", kind: "Hen"}
		space: template: {apiVersion: "v1", kind: "Namespace", metadata: name: "room-\(object.metadata.name)"}
		quota: template: {apiVersion: "v1", kind: "ResourceQuota", metadata: namespace: "room-\(object.metadata.name)"}
		entry: template: {apiVersion: "v1", kind: "Service", metadata: namespace: object.spec.at}
		view: template: {_binding, roleRef: {_role, name: "view"}}
		other: template: {_binding, metadata: namespace: object.spec.at, roleRef: {_role, name: "edit"}}
		chosen: template: {_binding, roleRef: {_role, name: object.spec.role}}
		rules: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", rules: [{apiGroups: [""], resources: ["pods"], verbs: ["get"]}]}
		pods: {replicas: 1, strays: "Delete", template: {apiVersion: "v1", kind: "Pod", metadata: labels: a: object.spec.at}}
	}
	inject: {annotation: "rooms.example.com/inject", add: {}}
}
#Hen: {apiVersion!: "rooms.example.com/v1", kind!: "Hen", metadata!: {name!: string, namespace?: string, ...}, status?: contract.#Status}
#HenController: contract.#Controller & {
	object!: #Hen
	names: plural: "hens"
	children: egg: template: {apiVersion: "v1", kind: "Endpoints"}
}
#House: {apiVersion!: "rooms.example.com/v1", kind!: "House", metadata!: {name!: string, namespace?: string, ...}, status?: contract.#Status}
#HouseController: contract.#Controller & {
	object!: #House
	names: plural: "houses"
	children: room: template: {apiVersion: "rooms.example.com/v1", kind: "Room", spec: {role: "view", at: "default"}}
}
#Hotel: {apiVersion!: "rooms.example.com/v1", kind!: "Hotel", metadata!: {name!: string, namespace?: string, ...}, spec!: at!: string, status?: contract.#Status}
#HotelController: contract.#Controller & {
	object!: #Hotel
	names: plural: "hotels"
	userRights: "Kind"
	children: door: template: {apiVersion: "rooms.example.com/v1", kind: "Door", spec: at: object.spec.at}
}
#Door: {apiVersion!: "rooms.example.com/v1", kind!: "Door", metadata!: {name!: string, namespace?: string, ...}, spec!: at!: string, status?: contract.#Status}
#DoorController: contract.#Controller & {
	object!: #Door
	names: plural: "doors"
	children: {
		frame: template: {apiVersion: "v1", kind: "ConfigMap"}
		bell: template: {apiVersion: "v1", kind: "Service", metadata: namespace: object.spec.at}
	}
}
`
	set, err := load.All(false, corpus.Folder(t, text))
	require.NoError(t, errors.Join(err, set.BrokenError()))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	for _, k := range []string{"Role", "RoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(k), meta.RESTScopeNamespace)
	}
	for _, k := range []string{"ConfigMap", "Endpoints", "Pod", "ResourceQuota", "Secret", "Service"} {
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: k}, meta.RESTScopeNamespace)
	}
	const (
		room    = `{"apiVersion":"rooms.example.com/v1","kind":"Room","metadata":{"name":"a","namespace":"default"},"spec":{"role":"x","at":"market"}}`
		here    = `{"apiVersion":"rooms.example.com/v1","kind":"Room","metadata":{"name":"a","namespace":"default"},"spec":{"role":"x","at":"default"}}`
		ofHouse = `{"apiVersion":"rooms.example.com/v1","kind":"House","metadata":{"name":"a","namespace":"default"}}`
		ofHotel = `{"apiVersion":"rooms.example.com/v1","kind":"Hotel","metadata":{"name":"a","namespace":"default"},"spec":{"at":"kube-system"}}`
	)
	always := []string{
		"create pods  in default", "delete pods  in default", "escalate roles  in default", "list configmaps  in default",
	}
	for name, test := range map[string]struct {
		of, object string
		want       []string
	}{
		"elsewhere": {"Room", room, append([]string{ // the engine creates no child there
			"get secrets market in default", "get secrets elsewhere in market",
			"bind clusterroles  in default", "bind clusterroles  in market",
		}, always...)},
		"in its own namespace": {"Room", here, append([]string{
			"get secrets default in default", "get secrets elsewhere in default", "bind clusterroles  in default",
		}, always...)},
		"as a child": {"House", ofHouse, append([]string{
			"create rooms  in default", "get secrets  in default", "get secrets elsewhere in", "bind clusterroles  in",
		}, always...)},
		"with a child that chooses": {"Hotel", ofHotel, []string{"create services  in"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reviewer{allowed: map[string][]string{"ada": {"rooms", "rolebindings", "roles", "clusterroles", "pods", "configmaps", "secrets", "services", "resourcequotas"}}}
			objects := newObjects(set.All(), NewRights(r, mapper, set.All()), nil)
			response, err := objects.validate(t.Context(), requestFor(t, kindtest.Named(t, set.All(), test.of), test.object, ""))
			require.NoError(t, err)
			require.True(t, response.Allowed, "%v", response.Result)
			require.ElementsMatch(t, test.want, r.questions())
		})
	}
}

// What an object of the same kind does, which is a child, is asked for as what other kinds do.
func TestRightsOfRecursion(t *testing.T) {
	t.Parallel()
	set, err := load.All(false, corpus.Folder(t, `package tree

import "fescue.dev/cue/contract"

#Tree: {apiVersion!: "trees.example.com/v1", kind!: "Tree", metadata!: {name!: string, namespace?: string, ...}, spec!: {at!: string, next?: string}, status?: contract.#Status}
#TreeController: contract.#Controller & {
	object!: #Tree
	names: plural: "trees"
	owns: [{apiVersion: "trees.example.com/v1", kind: "Tree"}]
	children: {
		leaf: template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: object.metadata.name, namespace: object.spec.at}}
		if object.spec.next != _|_ {branch: template: {apiVersion: "trees.example.com/v1", kind: "Tree", spec: at: object.spec.next}}
	}
}
`))
	require.NoError(t, errors.Join(err, set.BrokenError()))
	kinds := set.All()
	r := &reviewer{allowed: map[string][]string{"ada": {"trees"}}}
	objects := newObjects(kinds, NewRights(r, noTypes(), kinds), nil)
	response, err := objects.validate(t.Context(), requestFor(t, kinds[0],
		`{"apiVersion":"trees.example.com/v1","kind":"Tree","metadata":{"name":"a","namespace":"default"},"spec":{"at":"default","next":"kube-system"}}`, ""))
	require.NoError(t, err)
	require.False(t, response.Allowed)
	require.Contains(t, response.Result.Message, `user "ada" cannot create resource "configmaps" in API group "" at the cluster scope (through the kind Tree)`)
}

// A set with strays: "Delete" deletes objects with labels that the author chooses.
func TestRightsToDeleteStrays(t *testing.T) {
	t.Parallel()
	shipped := kindtest.Shipped(t)
	cluster := kindtest.Named(t, shipped, "Customcluster")
	for name, test := range map[string]struct {
		allowed []string
		message string
	}{
		"with both":        {allowed: []string{"create pods", "delete pods"}},
		"without deletion": {allowed: []string{"create pods"}, message: `customclusters.samplecontroller.fescue.dev "a" is forbidden: user "ada" cannot delete resource "pods" in API group "" in the namespace "default", which the kind Customcluster does on behalf of the user`},
		"with neither":     {message: `user "ada" cannot create resource "pods" in API group "" in the namespace "default"; user "ada" cannot delete resource "pods" in API group "" in the namespace "default", which`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reviewer{allowed: map[string][]string{"ada": test.allowed}}
			objects := newObjects(shipped, NewRights(r, noTypes(), shipped), nil)
			response, err := objects.validate(t.Context(), requestFor(t, cluster,
				`{"apiVersion":"samplecontroller.fescue.dev/v1alpha1","kind":"Customcluster","metadata":{"name":"a"},"spec":{"count":0,"message":"x"}}`, ""))
			require.NoError(t, err)
			require.Equal(t, test.message == "", response.Allowed)
			if test.message != "" {
				require.Contains(t, response.Result.Message, test.message)
			}
		})
	}
	r := &reviewer{allowed: map[string][]string{"ada": {"create configmaps", "create pods"}}}
	watcher := kindtest.Named(t, shipped, "Watcher")
	require.NoError(t, NewRights(r, noTypes(), shipped).check(t.Context(), watcher, requestFor(t, watcher, "{}", ""), watcher.AnyPlaces("default"), nil), "without a set nothing is deleted")
}

// A request has everything that is known of the user, and no answer is used for another user.
func TestRightsAreCachedPerUser(t *testing.T) {
	t.Parallel()
	k := fence(t)
	r := &reviewer{allowed: map[string][]string{"ada": {"configmaps"}}}
	rights := NewRights(r, noTypes(), []*kind.Kind{k})
	users := []authenticationv1.UserInfo{
		{Username: "ada"},
		{Username: "ada", UID: "1"},
		{Username: "ada", Groups: []string{"a", "b"}},
		{Username: "ada", Groups: []string{"a\"\"b"}},
		{Username: "ada", Groups: []string{"ab"}},
		{Username: "ada", Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a"}}},
		{Username: "ada", Extra: map[string]authenticationv1.ExtraValue{"scopes": {"b"}}},
	}
	for range 3 {
		for _, user := range users {
			for _, namespace := range []string{"", "default"} {
				for _, verb := range []string{"create", "delete"} {
					ok, err := rights.may(t.Context(), user, right{verb: verb, resource: schema.GroupResource{Resource: "configmaps"}, namespace: namespace})
					require.NoError(t, err)
					require.True(t, ok)
				}
			}
		}
	}
	require.Len(t, r.asked, 4*len(users))
	for i, user := range users {
		spec := r.asked[4*i]
		require.Equal(t, user.UID, spec.UID)
		require.Equal(t, user.Groups, spec.Groups)
		require.Len(t, spec.Extra, len(user.Extra))
		for name, values := range user.Extra {
			require.Equal(t, []string(values), []string(spec.Extra[name]))
		}
	}
}

// `kubectl scale` submits only a number, but it changes the object.
func TestRightsOfScale(t *testing.T) {
	t.Parallel()
	archive := corpus.Read(t, corpus.Path(t, kindtest.Corpus+"/versions.txtar"))
	archive.Files = append(archive.Files, txtar.File{Name: "inject.cue", Data: []byte(`package versions

#FlockController: inject: {annotation: "versions.example.com/inject", add: {}}
`)})
	flock := kindtest.FromDir(t, corpus.Unpack(t, archive))[0]
	r := &reviewer{}
	rights := NewRights(r, noTypes(), []*kind.Kind{flock})
	stored := corpus.Object(t, []byte(`{"apiVersion":"versions.example.com/v1","kind":"Flock","metadata":{"name":"a"},"spec":{"count":1}}`))
	scale := func(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		o := newObjects([]*kind.Kind{flock}, rights, nil)
		o.stored = func(context.Context, schema.GroupVersionResource, cache.ObjectName) (map[string]any, error) {
			return stored, nil
		}
		return o.validate(t.Context(), request)
	}
	request := requestFor(t, flock, `{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":2}}`, `{}`)
	request.SubResource = "scale"
	request.Kind = metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	response, err := scale(request)
	require.NoError(t, err)
	require.False(t, response.Allowed)
	require.True(t, strings.HasPrefix(response.Result.Message, `flocks.versions.example.com "a" is forbidden`), response.Result.Message)

	request.UserInfo.Username = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
	response, err = scale(request)
	require.NoError(t, err)
	require.True(t, response.Allowed, "as it scales Kubernetes' own workloads")
	require.Len(t, r.asked, 1)
	whole := requestFor(t, flock, `{"apiVersion":"versions.example.com/v1","kind":"Flock","metadata":{"name":"a"},"spec":{"count":2}}`, "")
	whole.UserInfo = request.UserInfo
	response, err = newObjects([]*kind.Kind{flock}, rights, nil).validate(context.Background(), whole)
	require.NoError(t, err)
	require.False(t, response.Allowed, "more than the number")

	// What results is checked in the version of the request.
	tooMany := requestFor(t, flock, `{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":11}}`, `{}`)
	tooMany.SubResource, tooMany.Resource.Version, tooMany.UserInfo = "scale", "v1beta1", request.UserInfo
	stored["apiVersion"] = "versions.example.com/v1beta1"
	response, err = scale(tooMany)
	require.NoError(t, err)
	require.False(t, response.Allowed)
	require.Contains(t, response.Result.Message, "spec.count: Invalid value: 11")
	stored = nil
	response, err = scale(tooMany)
	require.NoError(t, err)
	require.True(t, response.Allowed, "the API server says that there is none")

	request.Resource.Resource = "herds"
	_, err = scale(request)
	require.Error(t, err)
}

// The resource of a type whose CRD is installed later differs from the guess.
func TestRightsToTypesThatAreInstalledLater(t *testing.T) {
	t.Parallel()
	kinds := kindtest.From(t, `package kinds

import (
	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)

#Door: {
	apiVersion!: "doors.example.com/v1"
	kind!:       "Door"
	metadata!:   k8s.#ObjectMeta
	status?:     contract.#Status
}
#DoorController: contract.#Controller & {
	object!: #Door
	names: plural: "doors"
	children: gateway: template: {apiVersion: "gateway.example.com/v1", kind: "Gateway"}
}
`)
	gateway := schema.GroupVersionKind{Group: "gateway.example.com", Version: "v1", Kind: "Gateway"}
	mapper := meta.NewDefaultRESTMapper(nil)
	r := &reviewer{allowed: map[string][]string{"ada": {"gateways"}}}
	objects := newObjects(kinds, NewRights(r, mapper, kinds), nil)
	validate := func() *admissionv1.AdmissionResponse {
		response, err := objects.validate(t.Context(), requestFor(t, kinds[0], `{"apiVersion":"doors.example.com/v1","kind":"Door","metadata":{"name":"a"}}`, ""))
		require.NoError(t, err)
		return response
	}
	require.Contains(t, validate().Result.Message, `cannot create resource "gatewaies" in API group "gateway.example.com"`, "a guess")
	mapper.AddSpecific(gateway, gateway.GroupVersion().WithResource("gateways"), gateway.GroupVersion().WithResource("gateway"), meta.RESTScopeNamespace)
	require.True(t, validate().Allowed)
	*mapper = *meta.NewDefaultRESTMapper(nil)
	require.True(t, validate().Allowed, "the mapper's answer is cached")
}

// Metadata that a kind reads changes its children, so changing it needs the rights.
func TestRightsOfLabels(t *testing.T) {
	t.Parallel()
	k := kindtest.From(t, `package kinds

import (
	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)

#Sign: {
	apiVersion!: "signs.example.com/v1"
	kind!:       "Sign"
	metadata!:   k8s.#ObjectMeta
	status?:     contract.#Status
}
#SignController: contract.#Controller & {
	object!: #Sign
	names: plural: "signs"
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", data: {
		for name, value in object.metadata.labels {(name): value}
		if object.metadata.annotations["signs.example.com/text"] != _|_ {text: object.metadata.annotations["signs.example.com/text"]}
	}}
}
`)[0]
	for metadata, asked := range map[string]int{
		`{"name":"a","labels":{"a":"b"},"annotations":{"x":"y"}}`:                      0,
		`{"name":"a","labels":{"a":"b"},"finalizers":["a/b"]}`:                         0,
		`{"name":"a","labels":{"a":"c"}}`:                                              1,
		`{"name":"a"}`:                                                                 1,
		`{"name":"a","labels":{"a":"b"},"annotations":{"signs.example.com/text":"y"}}`: 1,
		`{"name":"a","labels":{"a":"b"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":""}}`: 0,
	} {
		t.Run(metadata, func(t *testing.T) {
			t.Parallel()
			r := &reviewer{}
			objects := newObjects([]*kind.Kind{k}, NewRights(r, noTypes(), []*kind.Kind{k}), nil)
			object := func(metadata string) string {
				return `{"apiVersion":"signs.example.com/v1","kind":"Sign","metadata":` + metadata + `}`
			}
			response, err := objects.validate(context.Background(), requestFor(t, k, object(metadata), object(`{"name":"a","labels":{"a":"b"}}`)))
			require.NoError(t, err)
			require.Len(t, r.asked, asked)
			require.Equal(t, asked == 0, response.Allowed)
		})
	}
}
