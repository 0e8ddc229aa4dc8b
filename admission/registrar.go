package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
)

// fieldManager owns the fields that Fescue writes into the configurations.
const fieldManager = "fescue/webhooks"

// correctionDelay is how long a drift may last: immediate corrections would be a race with the
// other writer.
const correctionDelay = time.Second

// maxCorrectionDelay bounds the delay, which doubles with each failure.
const maxCorrectionDelay = time.Minute

// Registrar applies the webhook configurations and corrects drift. Only the leader needs one.
type Registrar struct {
	client   kubernetes.Interface
	kinds    []*kind.Kind
	webhooks Webhooks
	log      *slog.Logger
	// WatchFailed receives failures of the watches of the configurations. It is set before Run.
	WatchFailed informers.Failed

	mu sync.Mutex
	// applied are the generations after the last writes, by UID; it is nil before the first.
	applied map[types.UID]int64
	drifted chan struct{}
}

// NewRegistrar wires a registrar, which writes nothing before Publish.
func NewRegistrar(client kubernetes.Interface, kinds []*kind.Kind, webhooks Webhooks, log *slog.Logger) *Registrar {
	return &Registrar{client: client, kinds: kinds, webhooks: webhooks, log: log, drifted: make(chan struct{}, 1)}
}

// Publish applies the configurations with a CA bundle, which later corrections use as well.
func (r *Registrar) Publish(ctx context.Context, bundle []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.webhooks.CABundle = bundle
	return r.apply(ctx)
}

// InUse returns an error if the webhooks are called by a URL, and one of the configurations calls a
// Service: an installation with the same name, which would stop working. The API server would
// reject the configuration too, because it would have both. What cannot be read is not in use.
func (r *Registrar) InUse(ctx context.Context) error {
	if r.webhooks.URL == "" {
		return nil
	}
	mutating, _ := Configurations(nil, r.webhooks)
	byName := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField,
		mutating.Name).String()}
	api := r.client.AdmissionregistrationV1()
	var clients []admissionregistrationv1.WebhookClientConfig
	if list, err := api.MutatingWebhookConfigurations().List(ctx, byName); err == nil {
		for _, configuration := range list.Items {
			for _, webhook := range configuration.Webhooks {
				clients = append(clients, webhook.ClientConfig)
			}
		}
	}
	if list, err := api.ValidatingWebhookConfigurations().List(ctx, byName); err == nil {
		for _, configuration := range list.Items {
			for _, webhook := range configuration.Webhooks {
				clients = append(clients, webhook.ClientConfig)
			}
		}
	}
	for _, client := range clients {
		if s := client.Service; s != nil {
			return fmt.Errorf("the webhook configurations %q belong to an installation: they call the Service %s/%s",
				mutating.Name, s.Namespace, s.Name)
		}
	}
	return nil
}

// apply writes both configurations. r.mu is held.
func (r *Registrar) apply(ctx context.Context) error {
	mutating, validating := Configurations(r.kinds, r.webhooks)
	api := r.client.AdmissionregistrationV1()
	appliedMutating, err := applied(ctx, mutating, api.MutatingWebhookConfigurations().Patch, mutatingConditions)
	if err != nil {
		return cmp.Or(r.InUse(ctx), fmt.Errorf("apply the mutating webhook configuration: %w", err))
	}
	appliedValidating, err := applied(ctx, validating, api.ValidatingWebhookConfigurations().Patch,
		validatingConditions)
	if err != nil {
		return cmp.Or(r.InUse(ctx), fmt.Errorf("apply the validating webhook configuration: %w", err))
	}
	r.applied = map[types.UID]int64{
		appliedMutating.UID: appliedMutating.Generation, appliedValidating.UID: appliedValidating.Generation,
	}
	return nil
}

// applied writes a configuration by server-side apply, which keeps the fields that others own,
// such as a namespace selector that a cloud provider adds. Match conditions that others added are
// removed, because they could keep the API server from calling a webhook.
func applied[T metav1.Object](
	ctx context.Context, wanted T,
	patch func(ctx context.Context, name string, form types.PatchType, body []byte, options metav1.PatchOptions,
		subresources ...string) (T, error),
	conditions func(T) []conditions,
) (T, error) {
	body, err := json.Marshal(wanted)
	if err != nil {
		return wanted, err
	}
	live, err := patch(ctx, wanted.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
	if err != nil {
		return live, err
	}
	operations := replaceConditions(conditions(wanted), conditions(live))
	if len(operations) == 0 {
		return live, nil
	}
	operations = append([]operation{{"test", "/metadata/resourceVersion", live.GetResourceVersion()}}, operations...)
	if body, err = json.Marshal(operations); err != nil {
		return live, err
	}
	return patch(ctx, wanted.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
}

// conditions are the match conditions of one webhook.
type conditions struct {
	webhook string
	list    []admissionregistrationv1.MatchCondition
}

func mutatingConditions(c *admissionregistrationv1.MutatingWebhookConfiguration) (all []conditions) {
	for _, w := range c.Webhooks {
		all = append(all, conditions{w.Name, w.MatchConditions})
	}
	return all
}

func validatingConditions(c *admissionregistrationv1.ValidatingWebhookConfiguration) (all []conditions) {
	for _, w := range c.Webhooks {
		all = append(all, conditions{w.Name, w.MatchConditions})
	}
	return all
}

// replaceConditions returns the operations that give the webhooks the wanted conditions.
func replaceConditions(wanted, live []conditions) (operations []operation) {
	for i, webhook := range live {
		for _, want := range wanted {
			if want.webhook == webhook.webhook && !slices.Equal(want.list, webhook.list) {
				operations = append(operations, operation{"replace", fmt.Sprintf("/webhooks/%d/matchConditions", i),
					want.list})
			}
		}
	}
	return operations
}

// Run applies the configurations again whenever someone else has changed or deleted one,
// until ctx ends.
func (r *Registrar) Run(ctx context.Context) {
	mutating, _ := Configurations(nil, Webhooks{Name: r.webhooks.Name})
	byName := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, mutating.Name).String()
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.check(object, false) },
		UpdateFunc: func(_, object any) { r.check(object, false) },
		DeleteFunc: func(object any) { r.check(object, true) },
	}
	api, version := r.client.AdmissionregistrationV1(), admissionregistrationv1.SchemeGroupVersion
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, informer := range []cache.SharedIndexInformer{
		informers.NewInformer(version.WithResource("mutatingwebhookconfigurations"),
			informers.TypedSource(r.client, api.MutatingWebhookConfigurations(), byName),
			&admissionregistrationv1.MutatingWebhookConfiguration{}, nil, r.WatchFailed),
		informers.NewInformer(version.WithResource("validatingwebhookconfigurations"),
			informers.TypedSource(r.client, api.ValidatingWebhookConfigurations(), byName),
			&admissionregistrationv1.ValidatingWebhookConfiguration{}, nil, r.WatchFailed),
	} {
		_, err := informer.AddEventHandler(handler)
		if err = errors.Join(err, informer.SetTransform(informers.StripManagedFields)); err != nil {
			panic(err) // only a started informer returns one
		}
		watching.Go(func() { informer.RunWithContext(ctx) })
	}
	delay := correctionDelay
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.drifted:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		r.mu.Lock()
		err := r.apply(ctx)
		r.mu.Unlock()
		if err == nil {
			delay = correctionDelay
		} else if ctx.Err() == nil {
			delay = min(2*delay, maxCorrectionDelay)
			r.log.Error("correcting the webhook configurations failed; retrying", "after", delay, "error", err)
			r.signal()
		}
	}
}

// check detects a configuration that differs from the last write. Its generation counts the
// changes of everything but its metadata.
func (r *Registrar) check(object any, deleted bool) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	live, err := meta.Accessor(object)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.applied == nil {
		return
	}
	generation, known := r.applied[live.GetUID()]
	// An event may be older than the last write, but not one of another object with the name.
	if deleted == known || !deleted && live.GetGeneration() > generation {
		r.log.Info("webhook configuration was changed by someone else; applying it again", "name", live.GetName())
		r.signal()
	}
}

// signal makes Run apply the configurations; at most one signal is pending.
func (r *Registrar) signal() {
	select {
	case r.drifted <- struct{}{}:
	default:
	}
}
