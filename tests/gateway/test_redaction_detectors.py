"""What each family of rules finds and what it leaves alone, one line a case."""

from __future__ import annotations

import base64
import json
import re
from html import escape
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from presidio_analyzer import EntityRecognizer, RecognizerResult

from gateway.redaction.detectors.engine import RULES, Detector
from gateway.redaction.policy import Policy
from gateway.redaction.policy_file import load_policy, parse_policy
from gateway.redaction.spans import Span, cut_out, resolve
from gateway.redaction.tokens import TOKEN, Tokenizer


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy()


@pytest.fixture(scope="module")
def detector(policy: Policy) -> Detector:
    return Detector(policy)


def marked(detector: Detector, text: str) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in detector.find(text)]


#: The value stands between the markers.
FOUND = [
    # e-mail
    ("EMAIL", "mail to «jane.doe@corp.example» today"),
    ("EMAIL", "«jane+tag@sub.corp-x.co.uk», and"),
    ("EMAIL", "<«o'brien@corp.example»>"),
    ("EMAIL", '«"jane doe"@corp.example»'),
    ("EMAIL", "«δημήτρης@παράδειγμα.ελ» γράφει"),
    ("EMAIL", "«müller@bücher.example»."),
    ("EMAIL", "to=«anna@corp.example»&x=1"),
    ("EMAIL", "to=«anna%40corp.example»&x=1"),
    ("EMAIL", 'print("Hello\\n«anna@corp.example»")'),
    ("EMAIL", "mailto:«anna@corp.example»?subject=x"),
    ("EMAIL", "Author: Anna <«anna@corp.example»>"),
    ("EMAIL", "'«anna@corp.example»','x'"),
    ("EMAIL", "{'mail':'«anna@corp.example»'}"),
    ("EMAIL", "https://x.example/?mail=«anna@corp.example»"),
    ("EMAIL", "«anna@corp.example»:hunter2"),
    ("EMAIL", "«anna@corp.example»_old"),
    ("EMAIL", "«anna_b@192-168.corp.example»"),
    # phone
    ("PHONE", "call «+30 210 123 4567» now"),
    ("PHONE", "«+1 (555) 123-4567»"),
    ("PHONE", "«(555) 123-4567»"),
    ("PHONE", "«+49 (0) 8176 704044»"),
    ("PHONE", "«+14155552671»"),
    ("PHONE", "tel:«+44 20 7946 0958»"),
    ("PHONE", "Phone: «0161 496 0974»"),
    ("PHONE", "phone=«02079460958»"),
    ("PHONE", "Téléphone : «01 76 42 87 03»"),
    ("PHONE", "ring «415-555-2671 ext. 89» please"),
    ("PHONE", "«0049 30 901820»"),
    ("PHONE", "anna@corp.example,«03515611178»,x"),
    ("PHONE", "Mobil/Handy: «0171 2345678»"),
    ("PHONE", "Mobile:\n«723 813 266»"),
    # card
    ("CARD", "card «4242 4242 4242 4242» exp 12/27"),
    ("CARD", "«5555555555554444»"),
    ("CARD", "«2223003122003222»"),
    ("CARD", "«3782-822463-10005»"),
    ("CARD", '{"pan":"«6011111111111117»"}'),
    ("CARD", "«3530111333300000»,next"),
    # iban
    ("IBAN", "IBAN «GB82 WEST 1234 5698 7654 32»."),
    ("IBAN", "«gb82west12345698765432»"),
    ("IBAN", "«DE89370400440532013000»"),
    ("IBAN", "«fr14 2004 1010 0505 0001 3m02 606»"),
    ("IBAN", "«NO93 8601 1117 947»"),
    # ssn
    ("SSN", "ssn «536-90-4399»"),
    ("SSN", "Social Security Number: «536904399»"),
    ("SSN", "SSN «536 90 4399»"),
    # ip
    ("IP", "from «81.2.69.142» port 22"),
    ("IP", "http://«81.2.69.142»:8080/x"),
    ("IP", "«2a02:6b8::2:242»"),
    ("IP", "[«2606:4700:4700::1111»]:443"),
    ("IP", "client=«2001:0db8:85a3:0000:0000:8a2e:0370:7334»"),
    ("IP", "peer «::ffff:81.2.69.142» closed"),
    # secrets by name, in every syntax
    ("SECRET", "DB_PASSWORD=«hunter2hunter2»"),
    ("SECRET", "DB_PASSWORD=«hunter»\nDEBUG=1"),
    ("SECRET", 'DB_PASSWORD="«two words, and; more»"'),
    ("SECRET", "export AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzz12345»"),
    ("SECRET", "AWS_SECRET_ACCESS_KEY: «wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzz12345»"),
    ("SECRET", 'refresh_token: "«1b9f3c7d2e4a6f80»"'),
    ("SECRET", "password == '«x9!kk2»'"),
    ("SECRET", "  password: «S3cure!pass»"),
    ("SECRET", "spring.datasource.password=«s3cr3tP4ss»"),
    ("SECRET", '{"client_secret": "«aZ9-bY8_cX7dW6»"}'),
    ("SECRET", '{\\"api_key\\": \\"«aZ9bY8cX7dW6eV5»\\"}'),
    ("SECRET", "ENV API_TOKEN «aZ9bY8cX7dW6eV5»"),
    ("SECRET", "ENV API_TOKEN=«aZ9bY8cX7dW6eV5»"),
    ("SECRET", "mysql --password=«Tr0ub4dor3»"),
    ("SECRET", "tool --api-key «aZ9bY8cX7dW6eV5» run"),
    ("SECRET", "https://x.example/cb?access_token=«aZ9bY8cX7dW6eV5»&state=1"),
    ("SECRET", "X-Api-Key: «aZ9bY8cX7dW6eV5»"),
    ("SECRET", "const apiKey = '«aZ9bY8cX7dW6eV5»';"),
    ("SECRET", "PASSWORD: str = '«aZ9bY8cX7»'"),
    ("SECRET", "$password = '«p4ssw0rd!»';"),
    ("SECRET", 'db.setPassword("x"); dbPassword := "«p4ssw0rd!»"'),
    ("SECRET", "connect(user='app', password='«0vphmNnMSlqvBJI»')"),
    ("SECRET", 'secret_key = "«ca14b6d1d37a5dde3704aa97900c7268»"'),
    ("SECRET", "Server=db;User Id=app;Password=«Kestrel9321$»;Encrypt=true"),
    ("SECRET", "AccountName=x;AccountKey=«aZ9bY8cX7dW6eV5aZ9bY8cX7dW6eV5+/x==»;Suffix=y"),
    ("SECRET", "<password>«p4ssw0rd!x»</password>"),
    ("SECRET", "//registry.example/:_authToken=«aZ9bY8cX7dW6eV5»"),
    ("SECRET", "//registry.example/:_password=«c2VjcmV0MTIz»"),
    ("SECRET", "machine x.example login anna password «hunter2x»"),
    ("SECRET", "POSTGRES_PASSWORD: «hunter2x»  # local"),
    ("SECRET", "- DB_PASS=«hunter2x»"),
    ("SECRET", "password = «hunter2x»"),
    ("SECRET", "aws_secret_access_key=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»"),
    ("SECRET", "  MYSQL_ROOT_PASSWORD: «example_pw»\n"),
    ("SECRET", "JWT_SECRET: «supersecretjwtkey»"),
    ("SECRET", "curl -s -u anna:«s3cretpw» https://x.example"),
    ("SECRET", "sshpass -p '«hunter2x»' ssh x"),
    ("SECRET", "mysql -u root -p«hunter2x» db"),
    ("SECRET", "  - name: DB_PASSWORD\n    value: «hunter2x»\n"),
    ("SECRET", '{"name": "API_TOKEN", "value": "«aZ9bY8cX7dW6eV5»"}'),
    ("SECRET", 'passphrase: "«correct horse battery staple»"'),
    # headers and URLs
    ("SECRET", "Authorization: Basic «YWxhZGRpbjpvcGVuc2VzYW1l»"),
    ("SECRET", "curl -H 'Authorization: Bearer «mF_9.B5f-4.1JqM9xx»'"),
    ("SECRET", "Authorization: Token «9944b09199c62bcf9418ad846dd0e4bb»"),
    ("SECRET", "postgres://app:«o7p5fun0fczb»@db.internal:5432/app"),
    ("SECRET", "DATABASE_URL=mysql://root:«p@ss/word1»@127.0.0.1/db"),
    ("SECRET", "redis://:«s3cr3t-redis»@cache:6379/0"),
    ("SECRET", "https://anna:«x9kk2zz»@git.corp.example/repo.git"),
    ("SECRET", "amqp://app:«I2-^E34O!drybNDA»@mq.corp.example"),
    # phone: words of other languages, parentheses with a dash
    ("PHONE", "Telemóvel: «912 330 631»"),
    ("PHONE", "Puhelin: «212 759 257»"),
    ("PHONE", "Κινητό «21 2345 6789»"),
    ("PHONE", "zadzwoń pod «512 349 826»"),
    ("PHONE", "appelez le «0123427622»"),
    ("PHONE", "ring: «(201)-555-2353», thanks"),
    # ip: accounts on machines, words that end in `ver`
    ("IP", "ssh deploy@«181.122.11.196»"),
    ("IP", "server «24.41.16.214»:8443;"),
    ("IP", "nameserver «36.191.212.22»"),
    ("IP", "connect to host «5.2.1.1» failed"),
    # the name of a secret and its value in every syntax that pairs them
    ("SECRET", "REDIS_PASSWORD=«coral-fox-7»"),
    ("SECRET", 'setx AUTH_TOKEN "«5i1t1ria9lloqyxn»"'),
    ("SECRET", "set -gx AUTH_TOKEN «5i1t1ria9lloqyxn»"),
    ("SECRET", '#define WIFI_PASSWORD "«coral7fox»"'),
    ("SECRET", 'variable "db_password" {\n  type = string\n  default = "«ka3L9miVYt6W»"\n}'),
    ("SECRET", "docker run -e FERNET_KEY=«xDOOyQk09Ulc0EXHw7PjhwfcgZ» img"),
    ("SECRET", "docker run --env 'DB_PASS=«coralfox»' img"),
    ("SECRET", "env:\n  OPENWEATHER_KEY: «hio5FI77zGnxHEuGf6ZfDd1egzvO»"),
    ("SECRET", '<entry key="db.password">«coral6280»</entry>'),
    ("SECRET", '<add key="ApiToken" value="«aZ9bY8cX7dW6eV5»" />'),
    ("SECRET", "define('DB_PASSWORD', '«coral8892»');"),
    ("SECRET", "os.environ.setdefault('PGPASSWORD', '«Z2Yysdnm0W»')"),
    ("SECRET", 'props.setProperty("ssl.keystore.password", "«coral.20247»");'),
    ("SECRET", 'var adminPassword string = "«fIW1Klzr»"'),
    ("SECRET", 'let db_pwd: &str = "«r0ck3t!96»";'),
    ("SECRET", 'public string ApiKey { get; set; } = "«b3MMAEhfiBz00XPhwLXV»";'),
    ("SECRET", 'db_password <- "«Qwerty332!»"'),
    ("SECRET", "stripe.api.key = «oeF4pyiZOIXXENNkA7mh»"),
    ("SECRET", "secret: >-\n  «aZ9bY8cX7dW6eV5»\n"),
    ("SECRET", "helm install x --set smtpPassword=«coral423»"),
    ("SECRET", "time=1 level=debug admin_password=«Jkn855_hCd» msg=x"),
    ("SECRET", "user=a&passwd=«YPnK8JiK»&x=1"),
    ("SECRET", "Server=tcp:db,1433;User ID=sa;Password=«yJFAyUg8»;Encrypt=True;"),
    ("SECRET", "Driver={PostgreSQL};Server=x;Uid=a;Pwd={«coral-fox-7»};"),
    ("SECRET", "jdbc:oracle:thin:scott/«M9ONIBUTsoXV»@//db:1521/XE"),
    ("SECRET", "redis-cli -h cache -a «coralfoxes» ping"),
    ("SECRET", "mysql -uroot -p«flx7vlItLdxF» app"),
    ("SECRET", "docker login -u ci -p «3mbQyI2H8gXw» registry.example"),
    ("SECRET", "ALTER USER app IDENTIFIED BY '«coral-fox-7»';"),
    ("SECRET", "CREATE USER app WITH PASSWORD '«pjnhlqjlfw»';"),
    ("SECRET", "the admin password is «Orchid1579!»"),
    ("SECRET", "Passwort: «S3cr3tCoral»"),
    ("SECRET", "mot de passe : «Adm1n676!»"),
    ("SECRET", "Cookie: theme=dark; PHPSESSID=«9k1h3dgyzj8pnk4vcf5yp7zpqw»; lang=en"),
    ("SECRET", "Set-Cookie: __Host-session=«aZ9bY8cX7dW6eV5aZ9bY8c»; Path=/; Secure"),
    ("SECRET", "curl -b 'session=«aZ9bY8cX7dW6eV5aZ9bY8c»' https://x.example"),
    ("SECRET", "https://x.example/f?X-Amz-Signature=«db481943a4e700cd4f4b57dd312cfba2»"),
    ("SECRET", "temporary password: «Tr0ub4dor&3»"),
    ("SECRET", "access_token=«aZ9bY8cX7dW6eV5»&token_type=bearer"),
    ("SECRET", "root:«Sommer2023!»@tcp(127.0.0.1:3306)/db"),
    ("SECRET", "requests.get(url, auth=('bob', '«Pa55w0rd!»'))"),
    ("SECRET", "const secret = process.env.JWT_SECRET || '«supers3cr3tjwt»';"),
    ("SECRET", "password: '«it''s4secret»'"),
    ("SECRET", 'ConvertTo-SecureString "«Pa55w0rd!»" -AsPlainText -Force'),
    ("SECRET", "export SMTP_PASS=«sYxwBBNFygd»"),
    ("SECRET", "setenv DB_PASSWORD «coralfoxes»"),
    ("SECRET", 'process.env.OPENWEATHER_KEY = "«0CFgNlt1vxbavEb9tOVlqxfm»"'),
    ("APIKEY", "AKIAQ3EGRZ7L5T2NVBXM,«5H6Tmu6LmSflS9826/p5avZZP8R4c9nhcu0G8N+7»"),
]

LEFT_ALONE = [
    "git@github.com:owner/repo.git",
    "Fifth Floor, Boston, MA 02110-1301 USA",
    'ENV_API_KEY = "ANTHROPIC_API_KEY"',
    "client = Client(\n    password=user_password,\n    token=access_token\n)",
    "_UNLIMITED_COOKIE_KEY: _CookieKey = make()",
    "TOKEN = CHAR ^ CTL ^ SEPARATORS",
    'GRANT_TYPE_REFRESH_TOKEN = "refresh_token"',
    "Two-pass: read the whole file",
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: {name: db, key: password}",
    "git clone ssh://git@github.com/owner/repo",
    "@app.route('/x')",
    "react@18.2.0",
    "x = a @ b.T",
    "logo@2x.png",
    "anna@localhost",
    "user@example.com",
    "rsync x anna@host.corp.example:/var/www",
    "y = self.a@self.b.dot(c)",
    "getty@tty1.service",
    "2024-01-15 12:30:45",
    "1700000000",
    "1700000000123",
    "v1.2.3.4",
    "id 550e8400-e29b-41d4-a716-446655440000",
    "0x12345678",
    "line 1234567",
    "12345678901234567890",
    "3.14159265358979",
    "1992-08-04T11:12:05.624145",
    "sha1 5937b245150d4d2c530a3871905c6ba39dcdcb23",
    "total 1 234 567",
    "1234-5678",
    "10.0.19041.1",
    "4111 1111 1111 1112",
    "1700000000000",
    "5555555555554444555555",
    "x = 4005415423578",
    "GB82 WEST 1234 5698 7654 33",
    "ST25DV04KIE8F",
    "GB82WEST1234569876543200",
    "000-12-3456",
    "666-12-3456",
    "900-12-3456",
    "123-45-67890",
    "127.0.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "192.168.1.1",
    "255.255.255.0",
    "::1",
    "fe80::1",
    "std::vector",
    "a::b",
    "12:30:45",
    "00:00:00:00:00:00",
    "ff:ff:ff:ff:ff:ff",
    "Chrome/91.0.4472.124",
    "version = '1.2.3.4'",
    "pkg==1.2.3.4",
    "1.3.6.1.4.1.311",
    "81.2.0.0/16",
    "token = get_token()",
    "token = self.get_token(request)",
    'password = os.environ["DB_PASSWORD"]',
    "password=None, token=None",
    "secret: true",
    "api_key: ${{ secrets.API_KEY }}",
    "DB_PASSWORD=changeme",
    "PASSWORD=${DB_PASSWORD}",
    "password: {{ vault_password }}",
    "password: <password>",
    "token: Token = next(tokens)",
    "PASSWORD_RESET_TIMEOUT_DAYS = 3",
    "if token == tokenize.NAME:",
    "password: str = Field(..., min_length=8)",
    "Authorization: Bearer $TOKEN",
    "max_tokens: 4096",
    "token_count = 17",
    "const token = req.headers['x-token'];",
    'SECRET_KEY = config("SECRET_KEY")',
    "password: string;",
    "let password = state.password;",
    '"password": "Enter your password"',
    "secretName: my-app-tls",
    "password = getpass.getpass()",
    "token = tokens[0]",
    "sk_test_ = prefix",
    "passwd = _raw_input(prompt)",
    'f"password={password}"',
    "postgres://app:${DB_PASSWORD}@db/app",
    "https://user:password@host/",
    "next_page_token = 'abc'",
    "public_key = 'MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A'",
    "API_KEY=your-api-key-here",
    "password=********",
    "basic auth is used",
    "the bearer of this letter",
    "def reset_password(token: str) -> None:",
    "-----BEGIN PRIVATE KEY-----",
    '"-----BEGIN RSA PRIVATE KEY-----" in text',
    "sk-loading-indicator-large",
    '"integrity": "sha512-' + "aB3" * 28 + 'aB=="',
    "password_hash = bcrypt(password)",
    "tokenizer = AutoTokenizer",
    "token_type: bearer",
    "secret_key_base: <%= ENV['X'] %>",
    "pass: 3, fail: 0",
    "ba51c8b3-d655-4c45-bc29-ebea01e8a314",
    "react-app my-app will pass `my-app` on",
    "CVE-2026-9358",
    "call(78009023, 156)",
    "mobile users: 22928192",
    "contact form id 22928192",
    "// 5.2.1.1. Append the result",
    "pkg@1.2.3.4",
    "const OID_EDDSA = '1.3.101.112';",
    'input("password", "Password")',
    "<password>getpass()</password>",
    "--password user.password",
    "postgres://app:process.env.DB_PASSWORD@db/app",
    "Cookie: lang=en; consent=yes; _ga=GA1.2.1234567890.1234567890",
    "&code=200",
    "use the --username and --password options instead",
    "CACHE_KEY=user_profile_v2_2024_index",
    "session_id: 550e8400-e29b-41d4-a716-446655440000",
    "tests pass: all",
]


@pytest.mark.parametrize(("kind", "line"), FOUND, ids=[line for _, line in FOUND])
def test_a_value_is_found_exactly(detector: Detector, kind: str, line: str) -> None:
    before, value, _ = re.split("[«»]", line)
    text = line.replace("«", "").replace("»", "")
    spans = [s for s in detector.find(text) if s.kind == kind]
    assert (len(before), len(before) + len(value)) in [(s.start, s.end) for s in spans], spans


@pytest.mark.parametrize("line", LEFT_ALONE)
def test_what_is_no_value_is_left_alone(detector: Detector, line: str) -> None:
    assert marked(detector, line) == []


#: (kind, beginning, characters, how many, end): keys as their providers make them.
HEX, ALNUM = "0123456789abcdef", "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ0123456789"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
KEYS = [
    ("sk-ant-api03-", ALNUM, 93, "AA"),
    ("sk-proj-", ALNUM, 120, ""),
    ("sk-", ALNUM, 48, ""),
    ("sk-or-v1-", HEX, 64, ""),
    ("AKIA", UPPER, 16, ""),
    ("ASIA", UPPER, 16, ""),
    ("ghp_", ALNUM, 36, ""),
    ("gho_", ALNUM, 36, ""),
    ("ghs_", ALNUM, 36, ""),
    ("github_pat_", ALNUM, 82, ""),
    ("glpat-", ALNUM, 20, ""),
    ("xoxb-123456789012-123456789012-", ALNUM, 24, ""),
    ("xoxp-1-", ALNUM, 60, ""),
    ("AIza", ALNUM, 35, ""),
    ("GOCSPX-", ALNUM, 28, ""),
    ("ya29.", ALNUM, 80, ""),
    ("SG.", ALNUM, 22, "." + "aB3_" * 10 + "abc"),
    ("sk_live_", ALNUM, 24, ""),
    ("rk_live_", ALNUM, 24, ""),
    ("whsec_", ALNUM, 32, ""),
    ("hf_", ALNUM, 34, ""),
    ("npm_", ALNUM, 36, ""),
    ("pypi-AgEIcHlwaS5vcmc", ALNUM, 80, ""),
    ("dop_v1_", HEX, 64, ""),
    ("shpat_", HEX, 32, ""),
    ("dckr_pat_", ALNUM, 27, ""),
    ("glsa_", ALNUM, 32, "_a7c0997a"),
    ("NRAK-", UPPER, 27, ""),
    ("AGE-SECRET-KEY-1", UPPER, 58, ""),
    ("lin_api_", ALNUM, 40, ""),
    ("PMAK-", HEX, 24, "-" + "ab12" * 8 + "ab"),
    ("hvs.", ALNUM, 90, ""),
    ("dapi", HEX, 32, ""),
    ("SK", HEX, 32, ""),
    ("7815179246:A", ALNUM, 34, ""),
    ("gsk_", ALNUM, 52, ""),
    ("xai-", ALNUM, 80, ""),
    ("r8_", ALNUM, 37, ""),
    ("nvapi-", ALNUM, 64, ""),
    ("ATATT3", ALNUM, 180, ""),
    ("figd_", ALNUM, 40, ""),
    ("key-", HEX, 32, ""),
    ("pul-", HEX, 40, ""),
    ("tskey-auth-", ALNUM, 12, "-" + "aB3x" * 8),
    ("rubygems_", HEX, 48, ""),
    ("sntrys_", ALNUM, 80, ""),
    ("dp.pt.", ALNUM, 43, ""),
    ("LTAI", ALNUM, 20, ""),
    ("https://hooks.slack.com/services/T2CKQK3HA/BQBBVVTCU/", ALNUM, 24, ""),
    ("sbp_", HEX, 40, ""),
    ("glimt-", ALNUM, 25, ""),
    ("sk_", HEX, 48, ""),
    ("sk_sbox_", "abcdefghjkmnpqrstuvwxyz0123456789", 28, ""),
    ("nfp_", ALNUM, 36, ""),
    ("rnd_", ALNUM, 28, ""),
    ("phx_", ALNUM, 43, ""),
    ("e2b_", HEX, 40, ""),
    ("fc-", HEX, 32, ""),
    ("jina_", HEX, 32, "aB3x" * 7),
    ("tgp_v1_", ALNUM, 43, ""),
    ("bb_live_", ALNUM, 27, ""),
    ("sha256~", ALNUM, 43, ""),
    ("CLOJARS_", HEX, 60, ""),
    ("duffel_live_", ALNUM, 43, ""),
    ("ATCTT3", ALNUM, 180, ""),
    ("ATTA", HEX, 64, "0A1B2C3D"),
    ("apify_api_", ALNUM, 36, ""),
    ("polar_oat_", ALNUM, 43, ""),
    ("signkey-prod-", HEX, 64, ""),
    ("mdb_sa_sk_", ALNUM, 40, ""),
    ("oy2", "abcdefghjkmnpqrstuvwxyz0123456789", 43, ""),
]


@pytest.mark.parametrize(("start", "alphabet", "size", "end"), KEYS, ids=[k[0] for k in KEYS])
def test_provider_keys_are_found_whole_wherever_they_stand(
    detector: Detector, start: str, alphabet: str, size: int, end: str
) -> None:
    key = start + "".join(alphabet[(7 * i + 3) % len(alphabet)] for i in range(size)) + end
    for around in AROUND:
        text = around.format(key)
        at = text.index(key)
        covered = [s for s in detector.find(text) if s.start <= at and s.end >= at + len(key)]
        assert covered, around
        assert covered[0].end - covered[0].start <= len(key) + 2


AROUND = [
    "{}",
    "TOKEN={}\n",
    '"apiKey": "{}",',
    "key is {}, use it",
    "a\\n{}\\nb",
    "failed for {} (403)",
    "https://x.example/?k={}&y=1",
    "`{}`",
    "({})",
    "x_{}",
]


def pem(label: str = "RSA PRIVATE KEY", lines: int = 6, join: str = "\n") -> str:
    body = base64.b64encode(bytes(range(256)) * 2).decode()
    parts = [body[i * 64 : (i + 1) * 64] for i in range(lines)]
    return join.join([f"-----BEGIN {label}-----", *parts, f"-----END {label}-----"])


@pytest.mark.parametrize(
    "label",
    ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "DSA PRIVATE KEY",
     "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"],
)  # fmt: skip
@pytest.mark.parametrize(
    "join", ["\n", "\r\n", "\\n", "\n    ", "\\\\n", "\n> ", '\\n" +\n  "', "\n+"]
)
def test_private_keys_are_found_whole_in_any_layout(
    detector: Detector, label: str, join: str
) -> None:
    key = pem(label, join=join)
    assert marked(detector, f"x {key} y") == [("PRIVATEKEY", key)]


def test_a_private_key_cut_off_at_its_end_is_found_to_its_last_line(detector: Detector) -> None:
    key = pem().rsplit("\n", 2)[0]
    ((kind, value),) = marked(detector, key + "\n\nmore text here, unharmed\n")
    assert kind == "PRIVATEKEY"
    assert value == key


def test_a_private_key_cut_off_at_its_beginning_is_found(detector: Detector) -> None:
    key = pem()
    tail = "\n".join(key.split("\n")[3:])
    ((kind, value),) = marked(detector, tail)
    assert kind == "PRIVATEKEY"
    assert "abcd" not in value
    assert value.endswith("-----END RSA PRIVATE KEY-----")
    assert tail.removesuffix(value) == ""


def test_a_key_with_headers_and_one_on_a_single_line_are_found(detector: Detector) -> None:
    headed = pem().replace(
        "KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n", 1
    )
    assert marked(detector, headed) == [("PRIVATEKEY", headed)]
    single = pem(join=" ")
    assert marked(detector, single) == [("PRIVATEKEY", single)]


@pytest.mark.parametrize("number", ["{:6d}\t", "{:6d}→", "{:3d} | ", "{:d}: "])
def test_a_private_key_in_a_file_shown_with_line_numbers_is_found(
    detector: Detector, number: str
) -> None:
    lines = pem().split("\n")
    shown = "\n".join(number.format(at) + line for at, line in enumerate(lines, start=9))
    ((kind, value),) = marked(detector, shown)
    assert kind == "PRIVATEKEY"
    assert value == shown[shown.index("-----BEGIN") :]


def test_a_private_key_cut_off_within_a_string_is_found_to_the_cut(detector: Detector) -> None:
    key = pem(join="\\n").rsplit("\\n", 2)[0]
    assert marked(detector, f'"{key}... (truncated)"') == [("PRIVATEKEY", key)]


def test_a_certificate_and_a_public_key_stay(detector: Detector) -> None:
    assert marked(detector, pem("CERTIFICATE") + "\n" + pem("PUBLIC KEY")) == []


def test_a_json_web_token_is_one_value_even_behind_a_name(detector: Detector) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
    text = f"access_token: {token}\nAuthorization: Bearer {token}"
    assert [value for _, value in marked(detector, text)] == [token, token]


def test_values_side_by_side_are_told_apart(detector: Detector) -> None:
    row = "id 55 +44 20 7946 0958 4242 4242 4242 4242 415-555-2671 3782 822463 10005 9"
    assert marked(detector, row) == [
        ("PHONE", "+44 20 7946 0958"),
        ("CARD", "4242 4242 4242 4242"),
        ("PHONE", "415-555-2671"),
        ("CARD", "3782 822463 10005"),
    ]


@pytest.mark.parametrize("first", ["password: None", "token = get()", "secret the", "api_key=$X"])
def test_a_name_without_a_secret_does_not_hide_the_next_one(detector: Detector, first: str) -> None:
    text = f"{first}\npwd=coral7fox\nAPI_TOKEN=aZ9bY8cX7dW6eV5\nthe password is Orchid1579!"
    assert [value for _, value in marked(detector, text)] == [
        "coral7fox",
        "aZ9bY8cX7dW6eV5",
        "Orchid1579!",
    ]


def test_the_name_of_a_value_in_json_says_what_it_is(detector: Detector) -> None:
    def found(key: str, value: str) -> list[tuple[str, str]]:
        return [(s.kind, value[s.start : s.end]) for s in detector.find_value(key, value)]

    assert found("password", "hunter2") == [("SECRET", "hunter2")]
    assert found("client_secret", "aZ9bY8cX7dW6") == [("SECRET", "aZ9bY8cX7dW6")]
    assert found("Authorization", "Bearer aZ9bY8cX7dW6") == [("SECRET", "aZ9bY8cX7dW6")]
    assert found("phoneNumber", "0161 4960974") == [("PHONE", "0161 4960974")]
    assert found("ssn", "536904399") == [("SSN", "536904399")]
    for key, value in [
        ("password", "changeme"), ("token", "string"), ("max_tokens", "4096"), ("color", "hunter2"),
        ("token", "get_token()"), ("password", "${DB_PASSWORD}"), ("file_path", "/etc/passwd"),
    ]:  # fmt: skip
        assert found(key, value) == []


def test_terms_match_whole_words_in_any_script_and_case_longest_first() -> None:
    policy = parse_policy(
        'id="t"\nversion="1"\n[kinds]\nTERM={action="token"}\n'
        '[terms]\nlist=["Acme", "Acme Corp", "Παπαδόπουλος", "José", "C++ Guild", "@nightjar"]',
        source="t",
        directory=None,
    )
    detector = Detector(policy)
    text = "ACME corp and acme, παπαδόπουλοσ ΠΑΠΑΔΌΠΟΥΛΟΣ, jos\u0065\u0301 José c++ guild @Nightjar"
    assert [v for _, v in marked(detector, text)] == [
        "ACME corp",
        "acme",
        "παπαδόπουλοσ",
        "ΠΑΠΑΔΌΠΟΥΛΟΣ",
        "jose\u0301",
        "José",
        "c++ guild",
        "@Nightjar",
    ]
    assert marked(detector, "Acmeist Joséphine pacme") == []


@pytest.mark.parametrize(
    "term",
    [
        r"CORP\tom", r"CORP\admin", r"\\srv\nas\new", r"C:\new\u0041bc\Project", r"Blue\nHeron",
        'The "Heron" Inc', "O'Neill & Sons", "R&D", "50% club", "+49 Club", "x_4539_y", "a/b-c",
        "two\nlines", "&amp Society",
    ],
)  # fmt: skip
def test_a_term_of_signs_that_escapes_are_written_with_is_found_in_every_quotation(
    term: str,
) -> None:
    policy = parse_policy(
        'id="t"\nversion="1"\n[kinds]\nTERM={action="token"}\n'
        f"[terms]\nlist=[{json.dumps(term)}]",
        source="t",
        directory=None,
    )
    detector = Detector(policy)
    once = json.dumps(term)[1:-1]
    slashes = once.replace("/", "\\/")
    ways = (term, once, json.dumps(once)[1:-1], slashes, quote(term, safe=""), escape(term))
    for written in dict.fromkeys(ways):
        for before, after in (("", ""), ("see ", " now"), ('{"path": "', '"}'), ("x=", ";\n")):
            assert marked(detector, before + written + after) == [("TERM", written)], written


def test_terms_match_without_their_accents_and_within_scripts_without_blanks() -> None:
    policy = parse_policy(
        'id="t"\nversion="1"\n[kinds]\nTERM={action="token"}\n'
        '[terms]\nlist=["日本商事", "日本", "Ωρίων", "Zoë Müller", "Straße 9", "โครงการลับ", '
        '"Naïve"]',
        source="t",
        directory=None,
    )
    detector = Detector(policy)
    text = (
        "株式日本商事会 は日本で ΩΡΙΩΝ, ωριων, Ὠρίων, ZOE MULLER, "
        "Zoe\u0308 Mu\u0308ller, STRASSE 9, คือโครงการลับนี้, naive"
    )
    assert [v for _, v in marked(detector, text)] == [
        "日本商事", "日本", "ΩΡΙΩΝ", "ωριων", "Ὠρίων", "ZOE MULLER", "Zoe\u0308 Mu\u0308ller",
        "STRASSE 9", "โครงการลับ", "naive",
    ]  # fmt: skip
    assert marked(detector, "Ωρίωνας naively Zoe Mullers") == []


def test_existing_tokens_are_never_touched_nor_nested(detector: Detector) -> None:
    token = Tokenizer(b"k" * 32, "r").token("EMAIL", "a@b.example")
    for text in (
        token,
        f"password: {token}",
        f'password = "{token}"',
        f"Authorization: Bearer {token}",
        f"postgres://app:{token}@db/x",
        f"DB_PASSWORD={token}",
        f"phone: {token}",
    ):
        assert marked(detector, text) == [], text
    ((_, left), (_, right)) = marked(detector, f'password = "abc12xyz {token} tail99zz"')
    assert (left.strip(), right.strip()) == ("abc12xyz", "tail99zz")


def test_every_rule_is_a_presidio_recognizer(policy: Policy) -> None:
    for rule in RULES:
        recognizer = rule(policy)
        assert isinstance(recognizer, EntityRecognizer)
        for result in recognizer.analyze("a@b.example +44 20 7946 0958", list(rule.KINDS), None):
            assert isinstance(result, RecognizerResult)
            assert result.entity_type in rule.KINDS


def test_redaction_by_an_operators_recognizer_is_named_after_its_entity(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    (tmp_path / "plate_rules.py").write_text(
        "from presidio_analyzer import Pattern, PatternRecognizer\n"
        "class Plates(PatternRecognizer):\n"
        "    def __init__(self):\n"
        "        shape = Pattern('p', r'\\b[A-Z]{1,3}-[A-Z]{2} \\d{1,4}\\b', .6)\n"
        "        super().__init__('DE_PLATE', patterns=[shape])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    policy = parse_policy(
        'id="p"\nversion="1"\nrecognizers=["plate_rules:Plates"]', source="p", directory=None
    )
    assert marked(Detector(policy), "car B-AB 1234 seen") == [("DE_PLATE", "B-AB 1234")]


def test_allowed_values_stay() -> None:
    policy = parse_policy(
        'id="p"\nversion="1"\n[allow]\nvalues=["team@corp.example"]', source="p", directory=None
    )
    assert marked(Detector(policy), "team@corp.example x@corp.example") == [
        ("EMAIL", "x@corp.example")
    ]


spans = st.lists(
    st.builds(
        lambda start, size, kind, score: Span(start, start + size, kind, score, "r"),
        st.integers(0, 60),
        st.integers(0, 12),
        st.sampled_from(["EMAIL", "SECRET", "PHONE"]),
        st.sampled_from([0.5, 0.8, 0.9]),
    ),
    max_size=12,
)


@given(spans)
def test_settling_overlaps_loses_no_character_and_leaves_no_overlap(found: list[Span]) -> None:
    settled = resolve(found)
    assert all(a.end <= b.start for a, b in pairwise(settled))
    covered = {i for s in found for i in range(s.start, s.end)}
    assert covered == {i for s in settled for i in range(s.start, s.end)}


@given(spans, st.integers(0, 60), st.integers(1, 8))
def test_what_is_cut_around_a_token_stays_outside_it(
    found: list[Span], start: int, size: int
) -> None:
    hole = (start, start + size)
    text = "a" * 80
    kept = cut_out(resolve(found), [hole], text)
    inside = {i for s in kept for i in range(s.start, s.end)}
    wanted = {i for s in found for i in range(s.start, s.end)} - set(range(*hole))
    assert inside == wanted


@given(st.text(max_size=300))
def test_any_text_is_scanned_and_redacting_twice_changes_nothing(text: str) -> None:
    detector = DETECTOR
    tokenizer = Tokenizer(b"k" * 32, "r")

    def once(s: str) -> str:
        for span in reversed(detector.find(s)):
            s = (
                s[: span.start]
                + tokenizer.token(span.kind, s[span.start : span.end])
                + s[span.end :]
            )
        return s

    first = once(text)
    assert not any(TOKEN.search(first[s.start : s.end]) for s in detector.find(first))


DETECTOR = Detector(load_policy())
