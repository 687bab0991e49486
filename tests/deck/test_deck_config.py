"""The team file: defaults, what is an error, what is a warning, and the files users have."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.config import (
    BudgetAction,
    Config,
    ConfigError,
    GatewayMode,
    KeysConfig,
    Merge,
    Price,
    Restart,
    Role,
    SphragisConfig,
    TimeoutAction,
    UiConfig,
    Viewer,
    argv,
    builtin_config,
)
from deck.team_reader import load_config, normalize_key, parse_config

CONFIGS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "configs"
needs_configs = pytest.mark.skipif(not CONFIGS.is_dir(), reason="no ../shared/data/configs here")
FILE = Path("team.toml")


def parse(text: str) -> Config:
    return parse_config(text.encode(), FILE)


def role(lines: str) -> Config:
    """Return a team whose second role, not the start role, has `lines`."""
    return parse(f'[[roles]]\nname = "lead"\nstart = true\n[[roles]]\nname = "coder"\n{lines}\n')


def only_warning(config: Config) -> str:
    assert len(config.warnings) == 1, config.warnings
    return config.warnings[0]


def load_shared(name: str) -> Config:
    config = load_config(CONFIGS / f"{name}.toml", Path.cwd())
    assert config.warnings == ()
    assert config.path == CONFIGS / f"{name}.toml"
    assert config.start_role.name == "orchestrator"
    return config


@needs_configs
def test_every_shared_file_loads_without_a_warning() -> None:
    files = sorted(CONFIGS.glob("*.toml"))
    assert files
    for file in files:
        assert load_config(file, Path.cwd()).warnings == ()


@needs_configs
def test_the_trio_means_what_it_says() -> None:
    config = load_shared("trio")
    assert [r.name for r in config.roles] == ["orchestrator", "coder", "reviewer"]
    reviewer = config.roles[2]
    assert argv(reviewer) == ("claude", "--strict-mcp-config", "--model", "sonnet")
    assert reviewer.env_deny == ("AWS_*", "GCP_*", "GITHUB_TOKEN")
    assert config.sphragis.mode is GatewayMode.SOFT


@needs_configs
def test_the_regulated_team_means_what_it_says() -> None:
    config = load_shared("regulated")
    assert [r.approve for r in config.roles] == [False, False, True]
    assert config.sphragis == SphragisConfig(enabled=True, addr="127.0.0.1:8787", fail_closed=True)
    assert config.sphragis.mode is GatewayMode.REQUIRED
    assert config.pricing["claude-opus-4-8"] == Price(
        Decimal("5.0"), Decimal("25.0"), Decimal("0.5"), Decimal("6.25")
    )


@needs_configs
def test_the_unattended_team_means_what_it_says() -> None:
    config = load_shared("unattended")
    coder = config.roles[1]
    assert (coder.timeout, coder.timeout_action) == (2700, TimeoutAction.RESTART)
    assert (coder.restart, coder.restart_retries) == (Restart.ON_FAILURE, 3)
    assert config.ui.bell
    assert '"ntfy.sh/$NTFY_TOPIC"' in config.ui.on_timeout
    assert config.ui.on_budget == ""


@needs_configs
def test_the_review_crew_and_the_mixed_vendors_mean_what_they_say() -> None:
    assert not load_shared("review-crew").checkpoints.enabled
    reviewer = load_shared("mixed-vendors").roles[2]
    assert argv(reviewer) == ("agy", "--model", "Gemini 3.1 Pro (High)")
    assert reviewer.env_allow == ("GEMINI_API_KEY", "GOOGLE_*")
    assert reviewer.input_prompts == ("continue? <enter>",)
    assert reviewer.chrome_markers == ("agy statusbar",)


def test_defaults_are_the_contracts() -> None:
    config = parse('[[roles]]\nname = "solo"\ncommand = "sh"\n')
    assert config.roles == (Role(name="solo", command="sh"),)
    assert config.roles[0].base_url_env == ("ANTHROPIC_BASE_URL",)
    assert (config.checkpoints.enabled, config.checkpoints.keep) == (True, 20)
    assert (config.roster.propose, config.roster.approve) == (True, True)
    assert config.sphragis == SphragisConfig(None, "127.0.0.1:8787", "sphragis", True)
    assert config.ui == UiConfig()
    assert config.keys == KeysConfig()
    assert config.warnings == ()
    assert config.start_index == 0


def test_every_role_key_is_read() -> None:
    config = role(
        """
        command = "codex"
        args = ["a", "b c"]
        model = "m"
        model_flag = "-m"
        prompt_template = "p"
        input_prompts = ["i"]
        chrome_markers = ["c"]
        env_allow = ["A"]
        env_deny = ["D"]
        base_url_env = ["OPENAI_BASE_URL"]
        restart = "on-failure"
        restart_retries = 5
        approve = true
        timeout = "1h30m"
        timeout_action = "restart"
        judge = "lead"
        judge_pass = 9
        judge_rounds = 2
        fresh = true
        budget = "5.00"
        budget_action = "pause"
        owns_files = ["./docs//a b.md", "x"]
        worktree = true
        merge = "auto"
        """
    )
    assert config.warnings == ()
    assert config.roles[1] == Role(
        name="coder",
        command="codex",
        args=("a", "b c"),
        model="m",
        model_flag="-m",
        prompt_template="p",
        input_prompts=("i",),
        chrome_markers=("c",),
        env_allow=("A",),
        env_deny=("D",),
        base_url_env=("OPENAI_BASE_URL",),
        restart=Restart.ON_FAILURE,
        restart_retries=5,
        approve=True,
        timeout=5400.0,
        timeout_action=TimeoutAction.RESTART,
        judge="lead",
        judge_pass=9,
        judge_rounds=2,
        fresh=True,
        budget=Decimal("5.00"),
        budget_action=BudgetAction.PAUSE,
        owns_files=("docs/a b.md", "x"),
        worktree=True,
        merge=Merge.AUTO,
    )
    assert argv(config.roles[1]) == ("codex", "a", "b c", "-m", "m")


def test_every_other_table_is_read() -> None:
    config = parse(
        """
        [[roles]]
        name = "solo"
        [sphragis]
        enabled = false
        addr = "127.0.0.1:9"
        command = "/opt/sphragis"
        fail_closed = false
        [checkpoints]
        enabled = false
        keep = 5
        [pricing."m"]
        input = 3
        [roster]
        propose = false
        approve = false
        [keys]
        prefix = "Ctrl+A"
        zoom = "prefix+Z"
        split_horizontal = "minus"
        [ui]
        auto_focus = false
        viewer = "editor"
        on_gate = "g"
        on_budget = "b"
        [ui.theme]
        accent = "#7aa2f7"
        dim = "0"
        """
    )
    assert config.warnings == ()
    assert config.sphragis == SphragisConfig(False, "127.0.0.1:9", "/opt/sphragis", False)
    assert config.sphragis.mode is GatewayMode.OFF
    assert (config.checkpoints.enabled, config.checkpoints.keep) == (False, 5)
    assert config.pricing == {"m": Price(input=Decimal(3))}
    assert (config.roster.propose, config.roster.approve) == (False, False)
    assert (config.keys.prefix, config.keys.zoom, config.keys.split_horizontal) == (
        "ctrl+a", "Z", "-"
    )  # fmt: skip
    assert (config.ui.auto_focus, config.ui.viewer) == (False, Viewer.EDITOR)
    assert (config.ui.theme.accent, config.ui.theme.dim, config.ui.theme.idle) == (
        "#7aa2f7", "0", "244"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("roles = [", "correct the TOML"),
        ("[[roles]]\nname = 'a'\nname = 'b'", "correct the TOML"),
        ("", r"add at least one \[\[roles\]\]"),
        ("[sphragis]\n", r"add at least one \[\[roles\]\]"),
        ("roles = 3", r"roles must be a list of tables"),
        ("[[roles]]\nstart = 'yes'", r"roles\[0\]\.start must be true or false"),
        ("[[roles]]\nname = 'a'\nargs = 'x'", r'roles\."a"\.args must be a list of strings'),
        ("[[roles]]\nname = 'a'\nrestart_retries = 1.5", "must be a whole number"),
        ("[[roles]]\nname = 'a'\n[pricing.m]\ninput = true", r"pricing\.m\.input must be a number"),
        ("[[roles]]\nname = 'a'\n[ui]\ntheme = 1", r"written as \[ui\.theme\]"),
        ("[[roles]]\nname = 'a'\nowns_files = ['']", "empty entry"),
        ("[[roles]]\nname = 'a'\nowns_files = ['/etc/x']", "absolute"),
        ("[[roles]]\nname = 'a'\nowns_files = ['a/../../x']", "outside the project"),
        ("[[roles]]\nname = 'a'\nowns_files = ['.']", "outside the project"),
        ("[[roles]]\nname = 'a'\nowns_files = ['./.choragos/x']", "belongs to the deck"),
        (
            "[[roles]]\nname = 'a'\nowns_files = ['x']\n"
            "[[roles]]\nname = 'b'\nowns_files = ['./x']",
            'which roles."a" owns already',
        ),
    ],
)
def test_what_cannot_be_run_is_one_sentence_with_file_key_and_fix(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse(text)
    sentence = str(caught.value)
    assert sentence.startswith("team.toml: ")
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ('restart = "always"', "restart"),
        ('timeout = "soon"', "timeout"),
        ('timeout = "-5m"', "timeout"),
        ('timeout_action = "kill"', "timeout_action"),
        ('budget = "free"', "budget"),
        ('budget = "0"', "budget"),
        ('budget = "-1.00"', "budget"),
        ('budget = "inf"', "budget"),
        ('budget_action = "stop"', "budget_action"),
        ('base_url_env = ["A B"]', "base_url_env"),
        ('judge = "coder"', "judge"),
        ('judge = "nobody"', "judge"),
        ("judge_pass = 11", "judge_pass"),
        ("judge_pass = 0", "judge_pass"),
        ("judge_rounds = -1", "judge_rounds"),
        ('merge = "auto"', "merge"),
        ('merge = "yolo"\nworktree = true', "merge"),
    ],
)
def test_a_bad_optional_value_is_a_warning_and_the_default_stands(lines: str, key: str) -> None:
    config = role(lines)
    assert only_warning(config).startswith(f'team.toml: roles."coder".{key} ')
    plain = Role(name="coder", worktree="worktree" in lines)
    assert config.roles[1] == plain


def test_the_start_role_cannot_be_fresh_or_in_a_worktree() -> None:
    config = parse('[[roles]]\nname = "lead"\nfresh = true\nworktree = true\nmerge = "gate"\n')
    assert len(config.warnings) == 3
    assert config.roles[0] == Role(name="lead")


@pytest.mark.parametrize("color", ["256", "-1", "#fff", "red", "٣", "#gggggg"])
def test_a_bad_color_is_a_warning(color: str) -> None:
    config = role(f'[ui.theme]\nidle = "{color}"')
    assert "ui.theme.idle" in only_warning(config)
    assert config.ui.theme.idle == "244"


def test_a_bad_viewer_is_a_warning() -> None:
    assert "ui.viewer" in only_warning(role('[ui]\nviewer = "vim"'))


def test_an_unknown_key_is_a_warning_with_the_nearest_known_one() -> None:
    assert only_warning(role('tiemout = "5m"')) == (
        'team.toml: unknown key roles."coder".tiemout; did you mean timeout?'
    )
    assert only_warning(role("[sphragis]\nfail_close = true")) == (
        "team.toml: unknown key sphragis.fail_close; did you mean fail_closed?"
    )
    assert only_warning(role("[keys]\nsplitvertical = 'v'")).endswith("mean split_vertical?")


def test_the_keys_inside_an_unknown_table_are_not_reported_again() -> None:
    config = role("[extra]\na = 1\n[extra.deeper]\nb = 2")
    assert only_warning(config) == "team.toml: unknown key extra; remove it"


def test_what_existing_decks_do_not_check_is_not_checked() -> None:
    config = parse("[[roles]]\n[[roles]]\nname = ''\n[[roles]]\nname='a'\n[[roles]]\nname='a'\n")
    assert config.warnings == ()
    assert [r.name for r in config.roles] == ["", "", "a", "a"]


def test_the_first_start_role_wins() -> None:
    config = parse(
        "[[roles]]\nname='a'\n[[roles]]\nname='b'\nstart=true\n[[roles]]\nname='c'\nstart=true\n"
    )
    assert config.start_role.name == "b"


def test_an_empty_model_flag_means_the_model_is_not_passed() -> None:
    assert argv(Role("a", "sh", ("-c",), "m", "")) == ("sh", "-c")
    assert argv(Role("a", "sh", ("-c",))) == ("sh", "-c")


def test_a_missing_default_file_means_the_built_in_team(tmp_path: Path) -> None:
    config = load_config(None, tmp_path)
    assert config == builtin_config()
    assert [r.name for r in config.roles] == [
        "orchestrator", "coder", "reviewer", "auditor", "release"
    ]  # fmt: skip
    assert config.roles[2].command == "agy"
    assert config.path is None


def test_a_named_file_must_be_there_and_readable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_config(Path("other.toml"), tmp_path)
    (tmp_path / ".choragos.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(None, tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(Path("latin.toml"), tmp_path)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    (tmp_path / ".choragos.toml").write_bytes(b'\xef\xbb\xbf[[roles]]\nname = "a"\n')
    config = load_config(None, tmp_path)
    assert config.path == tmp_path / ".choragos.toml"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a]\n[a]", "Cannot declare a twice (at line 2, column 3)"),
        ("[a.'b c']\n[a.'b c']", "Cannot declare a.b c twice"),
        ("a = { b = 1 }\na.c = 2", "Cannot mutate immutable namespace a ("),
        ("a = 1\na = 2", "A key is set a second time (at line 2, the end of the file)"),
        ("[pricing.'it\"s']\n[pricing.'it\"s']", 'Cannot declare pricing.it"s twice'),
    ],
)
def test_broken_toml_is_told_in_the_words_of_the_file_not_of_the_parser(
    text: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert str(caught.value).startswith("team.toml: ")
    assert "('" not in str(caught.value)


def test_a_key_that_needs_quotes_is_named_with_them() -> None:
    with pytest.raises(ConfigError, match=r'pricing\."a\.b"\.input must be a number'):
        role('[pricing."a.b"]\ninput = "5"')
    with pytest.raises(ConfigError, match=r'written as \[pricing\."a\.b"\]'):
        role('[pricing]\n"a.b" = 5')
    assert "pricing.plain.inputs;" in only_warning(role("[pricing.plain]\ninputs = 5"))


def test_a_number_where_a_duration_belongs_is_told_to_be_quoted() -> None:
    with pytest.raises(ConfigError, match=r"timeout must be a string in quotes\.$"):
        role("timeout = 45")


@pytest.mark.parametrize(
    "addr",
    ["nonsense", "127.0.0.1", ":0", "localhost:99999", "http://127.0.0.1:1", "a b:1", "8787"],
)
def test_an_address_no_gateway_can_have_is_said_at_the_start_and_kept(addr: str) -> None:
    config = role(f'[sphragis]\nenabled = true\naddr = "{addr}"')
    assert "sphragis.addr must be a host and a port" in only_warning(config)
    # Another address would be a gateway that nobody named.
    assert config.sphragis.addr == addr


@pytest.mark.parametrize("addr", [":8787", "0.0.0.0:1", "[::1]:8787", "localhost:65535", "h.x.:1"])
def test_an_address_to_listen_on_or_to_call_is_no_warning(addr: str) -> None:
    assert role(f'[sphragis]\naddr = "{addr}"').warnings == ()


def test_negative_restarts_are_a_warning_and_three() -> None:
    config = role('restart = "on-failure"\nrestart_retries = -1')
    assert "restart_retries must not be negative; using 3" in only_warning(config)
    assert config.roles[1].restart_retries == 3
    assert role("restart_retries = 0").roles[1].restart_retries == 0


def test_a_file_whose_name_begins_with_a_tilde_can_be_owned() -> None:
    assert role('owns_files = ["~lock.odt#", "~a/b"]').roles[1].owns_files == ("~lock.odt#", "~a/b")
    for home in ("~", "~/notes.md"):
        with pytest.raises(ConfigError, match="absolute path"):
            role(f'owns_files = ["{home}"]')


def test_messages_repeat_no_values() -> None:
    secret = "hunter2-very-secret"
    for lines in (
        f'restart = "{secret}"',
        f'budget = "{secret}"',
        f'judge = "{secret}"',
        f'base_url_env = ["{secret}"]',
        f'[ui.theme]\ndim = "{secret}"',
    ):
        assert secret not in "".join(role(lines).warnings)


def test_keys_compare_as_the_keymap_does() -> None:
    assert [normalize_key(k) for k in ("prefix+v", "V", "TAB", "minus", "prefix+minus", "?")] == [
        "v", "V", "tab", "-", "-", "?"
    ]  # fmt: skip


@given(st.binary(max_size=200))
def test_any_bytes_are_a_team_or_a_config_error(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        assert parse_config(data, FILE).roles
