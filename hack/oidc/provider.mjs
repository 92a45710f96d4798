// A certified provider of OpenID Connect on loopback, with one person who is logged in without being asked:
// `npm install oidc-provider@9.13.3`, `node provider.mjs`, and
// `TIPHYS_OIDC_ISSUER=http://127.0.0.1:18765 cargo test -p tiphys-server --test it the_real_provider`.
import { Provider } from 'oidc-provider';
const port = 18765, issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: 'cd', client_secret: 'hunter2', redirect_uris: ['http://localhost/auth/callback'],
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] },
    { client_id: 'cd-cli', token_endpoint_auth_method: 'none', redirect_uris: ['http://localhost:8085/auth/callback'],
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] }],
  claims: { openid: ['sub'], email: ['email'], groups: ['groups'], profile: ['name'] },
  scopes: ['openid', 'offline_access', 'email', 'groups', 'profile'],
  conformIdTokenClaims: false,
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@acme.test`, name: id, groups: ['devs'] }) }),
  interactions: { url: (ctx, interaction) => `/finish/${interaction.uid}` },
  pkce: { required: () => true },
  features: { devInteractions: { enabled: false } },
  cookies: { keys: ['x'] },
  issueRefreshToken: async () => true,
  loadExistingGrant: async (ctx) => {
    const grant = new provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addOIDCScope('openid email groups profile offline_access');
    await grant.save(); return grant;
  },
});
provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith('/finish/')) return next();
  await provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: 'kim' } }, { mergeWithLastSubmission: false });
  ctx.respond = false;
});
provider.listen(port, '127.0.0.1', () => console.log(issuer));
