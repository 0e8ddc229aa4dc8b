package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
)

// How long the API server's answers are cached, as in controller-runtime: scrapers come back
// every few seconds with the same token. Denials are cached for a shorter time, and invalid
// tokens not at all.
const (
	tokenTTL   = time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// reviewTimeout is Prometheus' default scrape timeout.
	reviewTimeout = 10 * time.Second
)

// auth admits clients whose token the API server accepts and who are allowed to get the path
// that they ask for.
type auth struct {
	tokens authenticator.Request
	access authorizer.UnconditionalAuthorizer
	log    *slog.Logger
}

// newAuth delegates to the API server, by TokenReview and SubjectAccessReview.
func newAuth(client kubernetes.Interface, log *slog.Logger) (*auth, error) {
	// No retries: the next scrape is one.
	once := &wait.Backoff{Steps: 1}
	tokens, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:  client.AuthenticationV1(),
		TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff:      once,
		CacheTTL:                 tokenTTL,
	}.New()
	if err != nil {
		return nil, err
	}
	access, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             allowedTTL,
		DenyCacheTTL:              deniedTTL,
		WebhookRetryBackoff:       once,
	}.New()
	if err != nil {
		return nil, err
	}
	return &auth{tokens, access, log}, nil
}

// protect answers 401 to clients without a valid token, 403 to clients that are not allowed to
// get the path, and 500 if the API server does not answer, which the libraries log.
func (a *auth) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
		defer cancel()
		client, ok, err := a.tokens.AuthenticateRequest(r.WithContext(ctx))
		if isUnanswered(err) {
			http.Error(w, "the token cannot be reviewed", http.StatusInternalServerError)
			return
		}
		if err != nil || !ok {
			a.log.Debug("request for metrics without a valid token", "error", err)
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a valid bearer token is required", http.StatusUnauthorized)
			return
		}
		decision, reason, err := a.access.Authorize(ctx, authorizer.AttributesRecord{User: client.User, Verb: "get", Path: r.URL.Path})
		if err != nil {
			http.Error(w, "the access cannot be reviewed", http.StatusInternalServerError)
			return
		}
		if decision != authorizer.DecisionAllow {
			a.log.Debug("request for metrics denied", "user", client.User.GetName(), "path", r.URL.Path, "reason", reason)
			http.Error(w, fmt.Sprintf("user %q cannot get path %q", client.User.GetName(), r.URL.Path), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isUnanswered distinguishes a review that failed from one that found the token invalid, whose
// error is the text of the API server's answer.
func isUnanswered(err error) bool {
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok { // which errors.As does not look into
		return slices.ContainsFunc(all.Errors(), isUnanswered)
	}
	_, isAnswer := errors.AsType[*apierrors.StatusError](err)
	_, isNetwork := errors.AsType[net.Error](err)
	return isAnswer || isNetwork || errors.Is(err, context.DeadlineExceeded)
}

// tlsConfig serves a certificate or, without one, a self-signed certificate that no client can
// verify, as in controller-runtime. HTTP/2 is off, as for the webhooks.
func tlsConfig(getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, GetCertificate: getCertificate}
	if getCertificate != nil {
		return config, nil
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}
