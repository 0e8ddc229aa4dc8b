package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	tokenreview "k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	accessreview "k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	accessmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/fescue-dev/fescue/admission/certificate"
)

// How long answers of the API server are kept, as long as by controller-runtime: a scraper
// comes every few seconds with the same token. Rights that were refused are asked for again
// sooner, and a token that is not known each time.
const (
	tokenTTL   = time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// reviewTimeout is the scrape timeout of Prometheus.
	reviewTimeout = 10 * time.Second
)

// metricsAuth lets those through whose token the API server knows, and who may do with the
// path what they ask for.
type metricsAuth struct {
	tokens authenticator.Request
	access authorizer.UnconditionalAuthorizer
	log    *slog.Logger
}

// newMetricsAuth asks the API server by TokenReview and SubjectAccessReview.
func newMetricsAuth(client kubernetes.Interface, log *slog.Logger) (*metricsAuth, error) {
	// No retries: the next scrape is one.
	once := wait.Backoff{Steps: 1}
	tokens, err := tokenreview.NewFromInterface(client.AuthenticationV1(), nil, once, reviewTimeout, tokenreview.AuthenticatorMetrics{
		RecordRequestTotal:   func(context.Context, string) {}, // rest_client_* has them
		RecordRequestLatency: func(context.Context, string, float64) {},
	})
	if err != nil {
		return nil, fmt.Errorf("--metrics-auth: %w", err)
	}
	access, err := accessreview.NewFromInterface(client.AuthorizationV1(), allowedTTL, deniedTTL, once,
		authorizer.DecisionNoOpinion, accessmetrics.NoopAuthorizerMetrics{}, authorizationcel.NewDefaultCompiler())
	if err != nil {
		return nil, fmt.Errorf("--metrics-auth: %w", err)
	}
	return &metricsAuth{bearertoken.New(cache.New(tokens, false, tokenTTL, tokenTTL)), access, log}, nil
}

// protect answers with 401 without a token that is known, with 403 without the right, and
// with 500 if the API server cannot be asked, which the libraries log.
func (a *metricsAuth) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
		defer cancel()
		who, ok, err := a.tokens.AuthenticateRequest(r.WithContext(ctx))
		if isUnanswered(err) {
			http.Error(w, "the token cannot be reviewed", http.StatusInternalServerError)
			return
		}
		if err != nil || !ok {
			a.log.Debug("metrics are refused", "error", err)
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token that the API server knows is needed", http.StatusUnauthorized)
			return
		}
		decision, reason, err := a.access.Authorize(ctx, authorizer.AttributesRecord{User: who.User, Verb: "get", Path: r.URL.Path})
		if err != nil {
			http.Error(w, "the right cannot be reviewed", http.StatusInternalServerError)
			return
		}
		if decision != authorizer.DecisionAllow {
			a.log.Debug("metrics are refused", "user", who.User.GetName(), "path", r.URL.Path, "reason", reason)
			http.Error(w, fmt.Sprintf("user %q cannot get path %q", who.User.GetName(), r.URL.Path), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isUnanswered tells a review that could not be made from one that found the token wrong,
// whose error is the text of its answer.
func isUnanswered(err error) bool {
	_, isAnswer := errors.AsType[*apierrors.StatusError](err)
	_, isNetwork := errors.AsType[net.Error](err)
	return isAnswer || isNetwork || errors.Is(err, context.DeadlineExceeded)
}

// metricsTLS is how metrics are served with --metrics-auth: with the certificate of a folder,
// or with one that is made now and that nobody can verify, as by controller-runtime.
// HTTP/2 is off, as for the webhooks.
func (o *listenOptions) metricsTLS(ctx context.Context, log *slog.Logger) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
	if o.certDir != "" {
		files, err := certificate.NewFiles(o.certDir, 0, nil, nil, log)
		if err != nil {
			return nil, fmt.Errorf("--metrics-cert-dir: %w", err)
		}
		go files.Run(ctx)
		config.GetCertificate = files.GetCertificate
		return config, nil
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("--metrics-auth: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}
