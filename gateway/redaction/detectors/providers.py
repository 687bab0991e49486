"""Keys that say whose they are: a provider's prefix and the shape it gives them.

Each row of the table is a literal every such key holds (searched first, so text without it costs
next to nothing), the full shape, and the kind. The shapes are those the providers document or
print. JSON web tokens are here too: their first bytes are always `eyJ`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source
from gateway.redaction.spans import Span

#: (name, literal, shape)
_ROWS: Final[tuple[tuple[str, str, str], ...]] = (
    ("anthropic", "sk-ant-", r"sk-ant-[\w-]{16,256}"),
    ("openai", "sk-proj-", r"sk-(?:proj|svcacct|admin|None)-[\w-]{20,256}"),
    ("openai", "sk-svcacct-", r"sk-svcacct-[\w-]{20,256}"),
    ("openai", "sk-admin-", r"sk-admin-[\w-]{20,256}"),
    ("openrouter", "sk-or-v1-", r"sk-or-v1-[0-9a-f]{32,128}"),
    ("langfuse", "sk-lf-", r"sk-lf-[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("sk", "sk-", r"sk-(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Z]|[0-9a-f]{32})[A-Za-z0-9][\w-]{18,200}"),
    ("aws", "AKIA", r"AKIA[A-Z0-9]{16}"),
    ("aws", "ASIA", r"ASIA[A-Z0-9]{16}"),
    ("aws", "ABIA", r"ABIA[A-Z0-9]{16}"),
    ("aws", "ACCA", r"ACCA[A-Z0-9]{16}"),
    ("aws-bedrock", "ABSK", r"ABSK[A-Za-z0-9+/]{80,300}={0,2}"),
    ("github", "ghp_", r"ghp_[A-Za-z0-9]{30,255}"),
    ("github", "gho_", r"gho_[A-Za-z0-9]{30,255}"),
    ("github", "ghu_", r"ghu_[A-Za-z0-9]{30,255}"),
    ("github", "ghs_", r"ghs_[A-Za-z0-9]{30,255}"),
    ("github", "ghr_", r"ghr_[A-Za-z0-9]{30,255}"),
    ("github", "github_pat_", r"github_pat_\w{22,255}"),
    ("gitlab", "glpat-", r"glpat-[\w-]{20,64}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?"),
    ("gitlab", "gldt-", r"gldt-[\w-]{20,64}"),
    ("gitlab", "glrt-", r"glrt-[\w-]{20,64}"),
    ("gitlab", "glptt-", r"glptt-[0-9a-f]{40}"),
    ("gitlab", "glcbt-", r"glcbt-[\w-]{20,64}"),
    ("gitlab", "glft-", r"glft-[\w-]{20,64}"),
    ("gitlab", "glsoat-", r"glsoat-[\w-]{20,64}"),
    ("gitlab", "glagent-", r"glagent-[\w-]{50,64}"),
    ("gitlab", "gloas-", r"gloas-[\w-]{60,70}"),
    ("slack", "xox", r"xox[abeoprs]-(?:\d-)?[A-Za-z0-9-]{10,250}"),
    ("slack", "xoxe.xox", r"xoxe\.xox[bp]-\d-[A-Za-z0-9]{100,250}"),
    ("slack", "xapp-", r"xapp-\d-[A-Z0-9]{8,14}-\d{8,16}-[0-9a-f]{32,128}"),
    ("slack", "hooks.slack.com", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[\w/]{20,200}"),
    ("discord", "/api/webhooks/", r"https://(?:\w{1,10}\.)?discord(?:app)?\.com/api/webhooks/\d{15,22}/[\w-]{30,100}"),
    ("teams", ".webhook.office.com", r"https://[\w-]{1,60}\.webhook\.office\.com/webhookb2/[\w@/-]{40,300}"),
    ("google", "AIza", r"AIza[\w-]{35}"),
    ("google", "GOCSPX-", r"GOCSPX-[\w-]{28}"),
    ("google", "ya29.", r"ya29\.[\w-]{20,1000}"),
    ("google", "1//0", r"1//0[\w-]{40,120}"),
    ("sendgrid", "SG.", r"SG\.[\w-]{16,32}\.[\w-]{32,64}"),
    ("stripe", "k_live_", r"[sr]k_live_[A-Za-z0-9]{16,247}"),
    ("stripe", "k_test_", r"[sr]k_test_[A-Za-z0-9]{16,247}"),
    ("stripe", "whsec_", r"whsec_[A-Za-z0-9+/]{24,64}={0,2}"),
    ("huggingface", "hf_", r"hf_[A-Za-z0-9]{30,64}"),
    ("huggingface", "api_org_", r"api_org_[A-Za-z0-9]{30,64}"),
    ("npm", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("pypi", "pypi-AgE", r"pypi-AgE[\w-]{50,400}"),
    ("rubygems", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    ("crates", "cio", r"cio[A-Za-z0-9]{32}"),
    ("digitalocean", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("shopify", "shp", r"shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32}"),
    ("docker", "dckr_", r"dckr_(?:pat|oat)_[\w-]{24,64}"),
    ("grafana", "glsa_", r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    ("grafana", "glc_", r"glc_[A-Za-z0-9+/]{32,400}={0,2}"),
    ("newrelic", "NRAK-", r"NRAK-[A-Z0-9]{27}"),
    ("newrelic", "NRII-", r"NRII-[\w-]{32}"),
    ("newrelic", "NRJS-", r"NRJS-[0-9a-f]{19}"),
    ("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    ("linear", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}"),
    ("postman", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("vault", "hv", r"hv[sbr]\.[\w-]{24,300}"),
    ("terraform", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,70}"),
    ("databricks", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    ("twilio", "SK", r"SK[0-9a-f]{32}"),
    ("twilio", "AC", r"AC[0-9a-f]{32}"),
    ("telegram", ":A", r"\d{8,10}:A[\w-]{34}"),
    ("groq", "gsk_", r"gsk_[A-Za-z0-9]{40,64}"),
    ("xai", "xai-", r"xai-[A-Za-z0-9]{60,100}"),
    ("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{40,64}"),
    ("replicate", "r8_", r"r8_[A-Za-z0-9]{37}"),
    ("fireworks", "fw_", r"fw_[A-Za-z0-9]{22,40}"),
    ("nvidia", "nvapi-", r"nvapi-[\w-]{60,80}"),
    ("tavily", "tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{28,64}"),
    ("langsmith", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    ("pinecone", "pcsk_", r"pcsk_[A-Za-z0-9_]{40,90}"),
    ("notion", "ntn_", r"ntn_[A-Za-z0-9]{40,60}"),
    ("notion", "secret_", r"secret_[A-Za-z0-9]{43}"),
    ("airtable", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("atlassian", "ATATT3", r"ATATT3[\w=-]{60,300}"),
    ("bitbucket", "ATBB", r"ATBB[A-Za-z0-9]{24,40}"),
    ("figma", "figd_", r"figd_[\w-]{38,48}"),
    ("mailgun", "key-", r"key-[0-9a-f]{32}"),
    ("mailchimp", "-us", r"[0-9a-f]{32}-us\d{1,2}"),
    ("brevo", "xkeysib-", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("resend", "re_", r"re_[A-Za-z0-9]{6,10}_[A-Za-z0-9]{20,30}"),
    ("postmark", "PMT", r"PMT[A-Z]{1,3}-[A-Za-z0-9-]{30,40}"),
    ("square", "EAAA", r"EAAA[\w-]{60}"),
    ("square", "sq0", r"sq0(?:atp|csp)-[\w-]{22,43}"),
    ("facebook", "EAA", r"EAA[A-Za-z0-9]{90,300}"),
    ("plaid", "access-", r"access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("paypal", "access_token$", r"access_token\$production\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    ("shippo", "shippo_", r"shippo_(?:live|test)_[0-9a-f]{40}"),
    ("easypost", "EZ", r"EZ[AT]K[A-Za-z0-9]{54}"),
    ("flutterwave", "FLWSECK", r"FLWSECK(?:_TEST)?-[0-9a-zA-Z]{12,40}(?:-X)?"),
    ("adafruit", "aio_", r"aio_[A-Za-z0-9]{28}"),
    ("planetscale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.-]{32,64}"),
    ("supabase", "sbp_", r"sbp_[0-9a-f]{40}"),
    ("supabase", "sb_secret_", r"sb_secret_[\w-]{24,48}"),
    ("neon", "napi_", r"napi_[0-9a-z]{60,70}"),
    ("flyio", "fo1_", r"fo1_[\w-]{43}"),
    ("flyio", "fm", r"fm[12][ar]?_[A-Za-z0-9+/]{100,800}={0,3}"),
    ("heroku", "HRKU-", r"HRKU-[\w-]{36,70}"),
    ("vercel", "vc", r"vc[piark]_[A-Za-z0-9]{50,64}"),
    ("doppler", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("pulumi", "pul-", r"pul-[0-9a-f]{40}"),
    ("sentry", "sntry", r"sntry[su]_[\w+/=-]{40,300}"),
    ("dynatrace", "dt0c01.", r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("datadog", "ddp", r"dd(?:pat|app)_[A-Za-z0-9]{30,64}"),
    ("sonar", "sq", r"sq[pau]_[0-9a-f]{40}"),
    ("snyk", "snyk_", r"snyk_(?:uat|sat)\.[\w.-]{20,200}"),
    ("jfrog", "AKC", r"AKC[a-zA-Z0-9]{70}"),
    ("jfrog", "cmVmd", r"cmVmd[A-Za-z0-9]{59}"),
    ("buildkite", "bkua_", r"bkua_[0-9a-f]{40}"),
    ("circleci", "CCIPAT_", r"CCIPAT_[A-Za-z0-9]{20,30}_[0-9a-f]{40}"),
    ("alibaba", "LTAI", r"LTAI[A-Za-z0-9]{12,24}"),
    ("tencent", "AKID", r"AKID[A-Za-z0-9]{32}"),
    ("yandex", "AQVN", r"AQVN[\w-]{35,40}"),
    ("yandex", "y0_", r"y0_[\w-]{50,64}"),
    ("ibm-apps", "p8e-", r"p8e-[A-Za-z0-9-]{32}"),
    ("azure-ad", "Q~", r"[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
    ("azure-devops", "AZDO", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}"),
    ("azure-storage", "==", r"(?<!sha512-)(?<!sha384-)(?<!sha512:)[A-Za-z0-9+/]{86}=="),
    ("azure-sas", "sig=", r"(?<=sig=)[A-Za-z0-9%+/]{40,80}(?:%3D|={1,2})"),
    ("mapbox", "sk.eyJ", r"sk\.eyJ[\w-]{40,200}\.[\w-]{20,40}"),
    ("onepassword", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/=_-]{100,2000}"),
    ("onepassword", "A3-", r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-\w{5})(?:-[A-Z0-9]{5}){3}"),
    ("typeform", "tfp_", r"tfp_[\w.-]{40,70}"),
    ("frame", "fio-u-", r"fio-u-[\w=-]{64}"),
    ("prefect", "pn", r"pn[ub]_[A-Za-z0-9]{36}"),
    ("readme", "rdme_", r"rdme_[0-9a-z]{70}"),
    ("sourcegraph", "sgp_", r"sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}"),
    ("django", "django-insecure-", r"django-insecure-[^\s\"'`]{40,64}"),
    ("tailscale", "tskey-", r"tskey-[a-z]{3,10}-[A-Za-z0-9]{8,24}-[A-Za-z0-9]{16,48}"),
    ("cloudflare", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
    ("rapidapi", "msh", r"[0-9a-f]{10}msh[0-9a-f]{15}p1[0-9a-f]{5}jsn[0-9a-f]{12}"),
    ("hubspot", "pat-", r"pat-(?:na|eu|ap)\d-[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("intercom", "dG9rO", r"dG9rO[A-Za-z0-9+/]{50,70}={0,2}"),
    ("contentful", "CFPAT-", r"CFPAT-[\w-]{43}"),
    ("gcp-service", "GOOG", r"GOOG(?:1E)?[A-Z0-9]{20,58}"),
    ("aws-mws", "amzn.mws.", r"amzn\.mws\.[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("lob", "live_", r"live_[0-9a-f]{35}"),
    ("mercadopago", "APP_USR-", r"APP_USR-\d{10,20}-\d{6}-[0-9a-f]{32}-\d{6,12}"),
    ("razorpay", "rzp_", r"rzp_(?:live|test)_[A-Za-z0-9]{14,24}"),
    ("gitlab", "gl", r"gl(?:imt|ffct|wt)-[\w-]{20,64}"),
    ("gitlab", "GR1348941", r"GR1348941[\w-]{20,30}"),
    ("gitea", "gt", r"gt[ao]_[a-z2-7]{52}"),
    ("slack", "xox", r"xox[cd]-[\w%-]{20,300}"),
    ("sk", "sk_", r"sk_(?:[0-9a-f]{48}|(?:sbox|sandbox|prod|dev)_[A-Za-z0-9_]{20,80})"),
    ("mollie", "live_", r"live_(?=[A-Za-z]{0,29}\d)(?=[a-z0-9]{0,29}[A-Z])[A-Za-z0-9]{30,34}"),
    ("mollie", "test_", r"test_(?=[A-Za-z]{0,29}\d)(?=[a-z0-9]{0,29}[A-Z])[A-Za-z0-9]{30,34}"),
    ("atlassian", "ATCTT3", r"ATCTT3[\w=-]{60,300}"),
    ("trello", "ATTA", r"ATTA[0-9a-f]{64}[0-9A-F]{8}"),
    ("brevo", "xsmtpsib-", r"xsmtpsib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("netlify", "nfp_", r"nfp_[A-Za-z0-9]{36,44}"),
    ("render", "rnd_", r"rnd_[A-Za-z0-9]{24,40}"),
    ("posthog", "phx_", r"phx_[A-Za-z0-9]{40,60}"),
    ("e2b", "e2b_", r"e2b_[0-9a-f]{40}"),
    ("firecrawl", "fc-", r"fc-[0-9a-f]{32}"),
    ("cerebras", "csk-", r"csk-[a-z0-9]{40,60}"),
    ("jina", "jina_", r"jina_[0-9a-f]{32}[\w-]{20,40}"),
    ("voyage", "pa-", r"pa-(?=[A-Za-z_-]{0,42}\d)(?=[a-z0-9_-]{0,42}[A-Z])[\w-]{43}"),
    ("together", "tgp_v1_", r"tgp_v1_[\w-]{40,50}"),
    ("browserbase", "bb_", r"bb_(?:live|test)_[\w-]{24,40}"),
    ("launchdarkly", "sdk-", r"sdk-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ("launchdarkly", "api-", r"api-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ("openshift", "sha256~", r"sha256~[\w-]{43}"),
    ("clojars", "CLOJARS_", r"CLOJARS_[0-9a-f]{60}"),
    ("defined", "dnkey-", r"dnkey-[\w=-]{26}-[\w=-]{52}"),
    ("infracost", "ico-", r"ico-[A-Za-z0-9]{32}"),
    ("duffel", "duffel_", r"duffel_(?:live|test)_[\w=-]{43}"),
    ("octopus", "API-", r"API-(?=[A-Z]{0,25}\d)[A-Z0-9]{25,32}"),
    ("clickup", "pk_", r"pk_\d{6,9}_[A-Z0-9]{32}"),
    ("jetbrains", "perm", r"perm[:-][\w+/=]{6,40}\.[\w+/=-]{4,40}\.[A-Za-z0-9]{20,60}"),
    ("dropbox", "sl.", r"sl\.(?:u\.)?[\w-]{130,1200}"),
    ("firebase", ":APA91b", r"[\w-]{11}:APA91b[\w-]{120,200}"),
    ("paddle", "pdl_", r"pdl_(?:live|sdbx)_apikey_[a-z0-9]{26}_[A-Za-z0-9]{22}_[A-Za-z0-9]{3}"),
    ("scaleway", "SCW", r"SCW(?=[A-Z]{0,16}\d)[A-Z0-9]{17}"),
    ("apify", "apify_api_", r"apify_api_[A-Za-z0-9]{30,44}"),
    ("wakatime", "waka_", r"waka_[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("polar", "polar_", r"polar_[a-z]{2,4}_[A-Za-z0-9]{36,50}"),
    ("inngest", "signkey-", r"signkey-[a-z]{3,8}-[0-9a-f]{32,64}"),
    ("harness", "pat.", r"[ps]at\.[\w-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),
    ("scalingo", "tk-us-", r"tk-us-[\w-]{48}"),
    ("runpod", "rpa_", r"rpa_[A-Za-z0-9]{40,50}"),
    ("mongodb", "mdb_sa_sk_", r"mdb_sa_sk_[\w-]{36,44}"),
    ("figma", "figo", r"figoh?_[\w-]{38,48}"),
    ("asana", "1/1", r"1/1\d{15}:[0-9a-f]{32}"),
    ("asana", "2/1", r"2/1\d{15}/1\d{15}:[0-9a-f]{32}"),
    ("cal", "cal_live_", r"cal_live_[0-9a-f]{32}"),
    ("trigger", "tr_", r"tr_(?:dev|prod|stg)_[A-Za-z0-9]{20,40}"),
    ("xata", "xau_", r"xau_[A-Za-z0-9]{30,60}"),
    ("dynatrace", "dt0s", r"dt0s\d\d\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    ("akamai", "akab-", r"akab-[a-z0-9]{16}-[a-z0-9]{16}"),
    ("nuget", "oy2", r"oy2[a-z0-9]{43}"),
    ("pterodactyl", "ptl", r"ptl[ac]_[A-Za-z0-9]{40,48}"),
    ("zapier", "hooks.zapier.com", r"https://hooks\.zapier\.com/hooks/catch/\d{4,10}/\w{5,12}"),
    ("azure-ai", "JQQJ99", r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}"),
    ("azure-functions", "AzFu", r"[\w-]{44}AzFu[\w-]{5}[AQgw]=="),
    ("instagram", "IGQ", r"IGQ[A-Z][A-Za-z0-9_-]{100,300}"),
    ("kaggle", "KGAT_", r"KGAT_[0-9a-f]{32}"),
    ("langchain", "ls__", r"ls__[0-9a-f]{32}"),
    ("helicone", "sk-helicone-", r"sk-helicone-[\w-]{20,80}"),
    ("coinbase", "organizations/", r"organizations/[0-9a-f-]{36}/apiKeys/[0-9a-f-]{36}"),
    ("vercel", "vercel_", r"vercel_(?:blob_rw|pat)_[A-Za-z0-9]{14,30}(?:_[A-Za-z0-9]{20,60})?"),
    ("expo", "expo_", r"expo_[A-Za-z0-9_-]{36,48}"),
    ("cloudflare", "cf", r"cf(?:ut|at|k)_[A-Za-z0-9_-]{36,60}"),
    ("exoscale", "EXO", r"EXO(?=[0-9a-f]{0,23}\d)[0-9a-f]{24}"),
    ("zuplo", "zpka_", r"zpka_[0-9a-z]{32}_[0-9a-z]{8}"),
    ("unkey", "unkey_", r"unkey_[A-Za-z0-9]{20,40}"),
    ("livekit", "APIwbd", r"APIwbd[A-Za-z0-9]{9,20}"),
    ("twitch", "oauth:", r"oauth:[a-z0-9]{30}"),
    ("discord", "MT", r"MT[A-Za-z0-9_-]{22,26}\.[\w-]{6}\.[\w-]{27,40}"),
    ("discord", "Mj", r"Mj[A-Za-z0-9_-]{22,26}\.[\w-]{6}\.[\w-]{27,40}"),
    ("discord", "Mz", r"Mz[A-Za-z0-9_-]{22,26}\.[\w-]{6}\.[\w-]{27,40}"),
    ("discord", "ND", r"ND[A-Za-z0-9_-]{22,26}\.[\w-]{6}\.[\w-]{27,40}"),
    ("discord", "NT", r"NT[A-Za-z0-9_-]{22,26}\.[\w-]{6}\.[\w-]{27,40}"),
    ("discord", "Nj", r"Nj[A-Za-z0-9_-]{22,26}\.[\w-]{6}\.[\w-]{27,40}"),
    ("discord", "Nz", r"Nz[A-Za-z0-9_-]{22,26}\.[\w-]{6}\.[\w-]{27,40}"),
    ("discord", "OD", r"OD[A-Za-z0-9_-]{22,26}\.[\w-]{6}\.[\w-]{27,40}"),
    ("discord", "OT", r"OT[A-Za-z0-9_-]{22,26}\.[\w-]{6}\.[\w-]{27,40}"),
    ("jwt", "eyJ", r"eyJ[\w-]{8,2000}+\.[\w-]{8,8000}+\.(?:[\w-]{10,2000}+)?"),
)  # fmt: skip

#: A key ends where its word ends.
_NOT_AFTER: Final = r"(?![A-Za-z0-9])"


class _Row:
    """One compiled row; `leads` is how far before the literal the shape may begin."""

    __slots__ = ("kind", "leads", "literal", "name", "shape")

    def __init__(self, name: str, literal: str, shape: str) -> None:
        self.name = name
        self.literal = literal
        self.kind = "JWT" if name == "jwt" else "APIKEY"
        self.shape = re.compile(f"(?:{shape}){_NOT_AFTER}", re.ASCII)
        self.leads = _LEADS.get(literal, (0,))


#: How many characters of the shape precede its literal, where any do; a negative figure: the shape
#: begins behind the literal; URL: back to where the address begins.
_URL: Final = (-1000,)
_LEADS: Final[dict[str, tuple[int, ...]]] = {
    "k_live_": (1,),
    "k_test_": (1,),
    "_v1_": (3,),
    ".atlasv1.": (14,),
    ":A": (10, 9, 8),
    "-us": (32,),
    "Q~": (4,),
    "AZDO": (76,),
    "==": (86,),
    "sig=": (-4,),
    "msh": (10,),
    ":APA91b": (11,),
    "JQQJ99": (52,),
    "AzFu": (44,),
    "hooks.zapier.com": (8,),
    "hooks.slack.com": (8,),
    "/api/webhooks/": _URL,
    ".webhook.office.com": _URL,
}
_URL_REACH: Final = 80
_TABLE: Final = tuple(_Row(*row) for row in _ROWS)


class ProviderKeyRule(Rule):
    """Finds keys by their provider's prefix, and JSON web tokens."""

    KINDS: ClassVar = ("APIKEY", "JWT")

    def spans(self, source: Source) -> Iterator[Span]:
        """Search each literal, then its shape at that place."""
        text = source.text
        words = "\n".join(_LONG_WORD.findall(text))
        for row in _TABLE:
            if row.literal not in words:
                continue
            at = text.find(row.literal)
            while at >= 0:
                match = _match(text, at, row)
                if match is not None:
                    yield Span(match.start(), match.end(), row.kind, 0.95, row.name)
                    if row.name == "aws":
                        yield from _other_half(text, match.end())
                    after = max(match.end(), at + 1)
                else:
                    # A token's header may be long, and its word may hold the literal many times.
                    word = _TOKEN_WORD.match(text, at) if row.kind == "JWT" else None
                    after = word.end() if word else at + 1
                at = text.find(row.literal, after)


#: No key is shorter; literals are searched in such words only, a fraction of most texts.
_LONG_WORD: Final = re.compile(r"[^\s\"'`<>(){}\[\],;]{15,}+")

#: The secret of an AWS pair has no prefix; it is found beside its key's id.
_AWS_SECRET: Final = re.compile(r"(?<![A-Za-z0-9/+=_-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])")
_PAIR_REACH: Final = 120


def _other_half(text: str, at: int) -> Iterator[Span]:
    match = _AWS_SECRET.search(text, at, at + _PAIR_REACH)
    if match is not None:
        value = match.group()
        if any(c.isupper() for c in value) and any(c.islower() for c in value):
            yield Span(match.start(), match.end(), "APIKEY", 0.9, "aws-secret")


_TOKEN_WORD: Final = re.compile(r"[\w-]+", re.ASCII)


def _match(text: str, at: int, row: _Row) -> re.Match[str] | None:
    leads = row.leads
    if leads is _URL:
        start = text.rfind("https://", max(0, at - _URL_REACH), at)
        return row.shape.match(text, start) if start >= 0 else None
    for lead in leads:
        start = at - lead
        if start >= 0 and (lead < 0 or _begins(text, start)):
            match = row.shape.match(text, start)
            if match is not None:
                return match
    return None


def _begins(text: str, start: int) -> bool:
    """Whether a key may begin here: not in the middle of a word."""
    if start == 0:
        return True
    before = text[start - 1]
    if not (before.isascii() and before.isalnum()):
        return before not in "+/=" or text[start] not in "+/="
    return start > 1 and text[start - 2] == "\\" and before in "nrt"
