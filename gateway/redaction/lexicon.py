"""Words that tell a name from other words written with a capital.

Owns three lists, all in lower case: words that begin sentences, words of the trade that are always
written with a capital, and first names of people in Europe, the Americas, Asia and North Africa.
Invariant: a word in `COMMON` may still be a name inside a sentence; one in `TRADE` never is alone.
Used by `ner`, to leave out lines that hold no name and to judge what the model is unsure of, and by
the rule for names without a model, `detectors.people`.
"""

from __future__ import annotations

from typing import Final

_COMMON = """
abort above absolute abstract accelerate accept acceptable accepted accepts access accessing
according account accumulate acquire action acts actual actually adapted add added adding
additional additionally address adds adjacency adjust advance advanced after algorithm algorithms
alias aliases align all allocate allow allowed allows almost along alpha already also alternate
alternative alternatively although always among amount analogous analyze and annotated another any
anything apart apparently append appending applications applied applies apply applying approximate
arbitrary are argument arguments arithmetic array arrays ask assert assign assignment associate
assume assumes assuming assumptions asymptotic async asynchronous atomic attach attachment attempt
attempted attempting attempts attribute attributes augment auth authentication auto automatic
automatically auxiliary available average avoid avoids axes axis back backend background backport
backward backwards bad bail bare base based basic basically batch because before begin beginning
behaves behavior being below bernoulli best beta better binary bind bit blank block blocks body
boolean bootstrap borrowed both botocore bound boundary bounds bracket break broadcast
broadcasting bucket buffer buffered build building builds built builtin builtins but bypass byte
bytes cache cached caching calculate calculated calculates calculating calculation call callable
callback callbacks called caller callers calling calls can cancel cannot canonical capture care
cartesian case cast casting catch catching center centered centrality certain certificate change
changed changes changing character characters chebyshev check checking checks checksum child
choice cholesky choose choosing chop chord chunk chunks circular class classes clean cleanup clear
clears click client clients clip close closes closing cluster code coefficient coefficients coerce
collapse collect collection collections collects color colors column columns combine combined
combining comma command commands comment comments common commonly compare compared compares
comparing comparison comparisons compatibility compatible compile compiled compiler complementary
complete completion complex component components compose composition compress compressed
computation compute computed computes computing concatenate concrete condition conditional
conditions confidence config configuration configure confirm connect connection consider console
constant constants constraint constraints construct constructed constructing constructor
constructs consume container containers contains content context continuation continue continuous
contributed control controls convenience convergence conversion convert converting converts
coordinate coordinates copied copies copy copying copyright core coroutine correct correlation
corresponding corresponds cosine could count counter counts covariance coverage covered covers
create created creates creating creation credentials cross cumulative current currently cursor
curvature custom customize cutoff cycle cython dask data date dates deal dealing debug decide
decides decimal declare decode decorate decorator decorators decrease decrement dedicated default
defaulting defaults defer deferred define defined defines defining definite definition definitions
degenerate degree degrees delay delayed delegate delete deleting deliberately delta denominator
denotes dense dependent depending deprecated depth derivative derivatives derive derived describes
description design desired despite destination details detect determine determines development
diagnostic diagonal dict dictionaries dictionary did diff differences different differential
differentiate dimension dimensional dimensions direct directed direction directives directly
directories directory disable disabled disables disabling disallow discard discovery discrete
dispatch display distance distances distributed distribution distutils divide division document
documentation documents docutils does doing domain done dot double download draw driver drop due
dummy dump duplicate during dynamic dynamically each early edge edgelist edges edit effective
effectively efficient efficiently eigenvalue eigenvalues either element elements elementwise
eliminate else emit emitted empty emulate enable enabled enables enabling encode encodes encoding
end ending enforce ensure ensures enter entering entity entries entropy entry enum environment
epoch equal equality equivalent erase error errors escape escaped especially essentially establish
estimate estimated euclidean euler evaluate evaluated evaluates evaluating evaluation even event
events eventually every everything exact exactly example examples except exception exceptions
exclude excluded excluding execute executing execution existing exit exiting expand expansion
expect expectation expected expecting expects explicit explicitly exponent exponential export
expose expr express expression expressions extend extended extension extensions external extra
extract extracts factor factors factory fail failed failing fails failure fake fall fallback
falling falls false fast faster features feed fetch field fields figure file filename filenames
files fill filling filter filtered filters final finalize finally find finding finds finished
finite first fit fits fix fixed fixes fixture flag flags flask flat flatten flip float floating
flow flush focus follow following follows font for force forces form format formatted formatter
formatting fortran forward found four fourth fraction fractional free freeze frequency from frozen
full fully function functions further future gain gamma gate gather gaussian general generalized
generally generate generated generates generating generator generators generic geometric geometry
get gets getting git give given gives global good google got grab gradient graph graphs greater
group guaranteed guard guess hack half handle handled handler handlers handles handling happens
hard hartree has hash hashes have having header headers height help helper helpers hence here
hermite hermitian heuristic hex hexadecimal hide high higher highlight highlighter histogram
history hold holds hook hooks hopefully horizontal host how however hyperbolic hypothesis ideally
identical identifier identifies identify identity ignore ignored ignoring image imaginary
implement implementation implemented implementing implements implicit implicitly import important
imported importing imports improve include includes including incomplete increase increasing
increment indent indentation independent index indexes indexing indicate indicates indicator
indices indirect individual infer infinite infinity information inherit inheritance inherits init
initial initialization initialize initially inject inline inner input inputs insert inserts inside
inspect inspired install instance instances instantiate instead integer integers integral
integrals integrate integration intended interaction intercept interface intermediate internal
internally international interpolate interpolated interpolation interpret interpretation
intersection interval intervals intrinsic introspection invalid inverse invert invocation invoke
isolated issue item items iterable iterables iterate iterates iterating iteration iteratively
iterator its jacobi jacobian jedi join journal jump just justify keep keeping keeps kept kernel
key keys keyword keywords kill kind known label labels laguerre lambda language laplace large
larger largest last latency later lazily lazy leading least leave leaving left legacy legal
legendre length less let lets level lexer lexers libraries library license licensed like limit
limits line linear lines link links linux list lists literal load loading loads local locate
location locations lock log logarithm logarithmic logger logging logic logical logs long longer
look looking looks lookup loop low lower macro made magic magnitude main mainly maintain major
make makes making mandatory manually many map mapping maps mark marker marks mask masked match
matched matcher matches matching mathematical matplotlib matrices matrix max maximal maximum may
maybe mean medium member members memory menu merge merged message messages metadata method methods
might mimic mimics mind minimal minimization minimize minimum mirrors mismatch mismatched missing
mixin mock mode model modeled models modifications modified modifies modify module modules more
most mostly moto mount mouse move moved moves mpmath much multigraph multiple multiplication
multiply multivariate must mutable mutually mypy naive name named names namespace native necessary
need needed needs negate negative neither nested network networkx never new newline newton next
node nodes none nonlinear norm normal normalization normalize normalized normally not note notes
nothing notice notify now null number numbers numerator numeric numerical numpy object objective
objects obtain obviously odd offset offsets often old older omit once one only opaque opcodes open
opening operations operator operators optimal optimization optimize optimized option optional
optionally options order ordered ordering original originally other others otherwise our output
outside overall overflow overridden override overrides overwrite pack package packages pad padded
padding pagination pair parameter parameters parent parentheses parse parsed parser parses parsing
part partial particle partition pass passed passes passing paste patch path paths pattern patterns
payload per percent percentage perform performance performs perhaps permission permutation phone
physical pick pickle pickles pickling piecewise place placeholder placement plain plaintext
platform play please plot plots plotting plugins point points poles policy polygamma polynomial
pop populate populated port portions position positional positions positive possible possibly
potential power precedence precision predefined predicate prefer preferred prefix prepare prepend
present preserve preserves presolve pretty prevent previous previously primary primitive print
printing prints prior priority private probability probably problem process processes processor
produce produces product profile progress project prompt propagate proper properties property
protect protocol provide provided provides providing proxy prune public pull pure push put
pydantic pygments pytest python quadratic quadrature quality quantile quaternion query queue quick
quit quotes radius raise raised raises raising random randomly range ranges rank rather rational
raw read reader reading reads real reason reasons rebuild receive recognize recommended
reconstruct record recurse recursion recursive recursively redirect reduce reduces reduction ref
refactor refer reference references reflection refresh regardless regex regexes region register
registry regular reject relative release released releases relevant reload remaining remember
remote remove removed removes removing rename renamed render renderable reorder repeat repeated
repeatedly replace replaced replacement replaces report reporting represent representation
represented represents request requested requests require required requirements requires reraise
reserved reset resets reshape residual resolve resolved resolves resource response responses
restart restore restrict result results retrieve retry return returned returning returns reuse
reverse revert rewrite rewriting right roll root roots rotate rotation rotations round rounding
row rows rule rules run running runs runtime safe safety same sample samples sampling sanity save
saves say says scalar scalars scale scaled scales scaling scan schedule schema scheme scope scopes
scroll search searches second seconds secret see seek seems segment segments select selected
selection selects self send sending sends sent sentinel separate separator sequence sequences
serialize series server service session set sets setting setup setuptools several shape shared
shell shift short shortcut shortest shorthand should show shows shutdown sign signal signature
signed signs silence similar similarly simple simplification simplified simplifies simplify simply
simulate since sine single singular sink size sizes skip skipped skipping slice slices slow small
smaller smoothing snapshot socket solution solutions solve solves solving some something sometimes
sort sorted sorting source space spaces spacing sparse spec special specific specifically
specification specified specifies specify specifying speed sphinx spline split splits splitting
square stack stage standard start starting starts state statement statements states static
statistical statistics status step still stop stopping stops storage store stores storing stream
streaming strict strictly string strings strip strips structural structured structuring stuff
style styles subclass subclasses subject submit subsequent substitute substituting subtract such
suffix suitable sum super supply support supported supports suppose suppress survival swap switch
symbol symbolic symbols symmetric sync syntax system tab table tabs tag tags tail take taken takes
taking target task technically tell tells template temporarily temporary tensor term terminal
terminate termination terms test testing tests text that the their then theory there therefore
these they things think third this those though thread three threshold throw thrown throws thus
time timed timeout timeouts times timestamp title together toggle token tokenize tokens tolerance
too tools total trace traceback track tracks trailing transfer transform transformation
transformed transforms transition translate translated translation transpose traverse treat
treatment tree trial tried tries trigger trim trimmed trio trivial true truncate trust try trying
tuple tuples turn turns turtle twisted two type typed types typical typically unable undefined
under undirected undo unfortunately unicode union unique unit unitary univariate universal unix
unknown unless unlike unpack unrecognized unset unsigned unspecified unsupported until unused
unwrap update updated updates upgrade upload upon upper url usage use used useful useless user
users uses using usually utilities utility valid validate validates validation validator value
values variable variables variance various vector verbosity verifies verify verifying version
versions vertical very view views virtual visible visit wait waiting wake walk want warn warning
warnings was ways weight weighted weights what whatever when whenever where whereas whether which
while whitespace why widgets width wild will window windows with within without words work
workaround worker working works would wrap wrapped wrapper wrapping wraps write writes writing
written wrong yield yields you your zero zeros zip
"""
#: Ordinary words as they begin sentences of documentation, comments and mails.
COMMON: Final = frozenset(_COMMON.split())

_TRADE = """
abramowitz abs academic actions activity africa african agent agreement airflow airy algebra
algebraic all alpine also alt am amazon amd american amsterdam an analysis anchor and android
angle angles angular annals annotation annual ansible ant anthropic any apache api app appell
appendix apple application approach approx approximation approximations apt arabic arch are area
argentina args arn arnoldi arrow artificial as ascii asian aspects assembler association asus at
athens atom attrs audio august australian austria austrian auth authority authorization authorizer
authorizers authors availability awaitable azure babel backup barcelona barrier bash bazel be
bedrock been beijing belgium berlin bernoulli bessel binding binomial biology bitbucket blackman
blink blob blueprint bokeh book bool boolean booleans boost boston bounded box bra branch brazil
brazilian breakpoint british browser brussels budapest builder bulgaria bundle business but button
by calendar cambridge can canada canadian cancelled candidate canvas capital card cargo carmichael
cartesian catalog category cauchy cdn celery centos central chain channel chapter char charset
chat chebyshev chef chi chicago chile china chinese choices cholesky chrome chromium cipher circle
cisco clang claude clipboard clock closure cloud cmake cocoa codes codex colab collector colombia
colon colorizer combinatorics communications community commutator company complement completer
complexity compound computational computations computer conference configurable confluence
conjugate constrained consul contents contributor contributors convex cookie cookies copenhagen
copilot corporate corporation cost could coulomb cpu credential croatia cryptographic cryptography
css ctrl cuda curve cygwin cypress cyprus cyrillic cython czech czechia dallas darwin database
datadog debian debug debugger dec december decimals declaration decoratee decryption dell demo
denmark density department dependencies dependency deployment deprecation deque descriptors
detection determinant devanagari developer device dhcp dialect dialog did difference digest
digital digraph dijkstra diophantine dirac directive dirichlet discriminator dispatcher distutils
django dns do doc docker dockerfile docutils does dover down dr dubai dublin dumper duration dutch
each earth east edge edinburgh edition editor editors egypt einstein elastic elixir ellipse
ellipsis elliptic else emacs encryption endpoint energy engine engineering english enterprise env
envoy equals equation equations erlang error estimation estonia ethiopia euclidean euler european
every exception exchange executor exist exists exp expat expires express face facebook facility
factorization false fargate feb february fedora feedback fermat fibonacci fifth figma finland
finnish firefox firehose fiscal fiscale fish fixme flask fleet floatnumber floats floor foo for
formula formulas fortran foundation foundations fourier frames framework france frankfurt frau
frechet french fresnel friday friendly frobenius from ftp funny futures galois gateway gauge gauss
gaussian gecko gegenbauer gemini generation geneva genocchi gentoo geophysics germany ghana github
gitlab glasgow globals golang golub google gpu gradio gradle grafana gram grammar graphics graphql
greece greedy greek groebner groups grpc guards guide haar hack had hadamard hadoop halley hamburg
hamiltonian hamming handbook hangul hankel hann hardware harmonic has hashable haskell have havel
he health heaviside hebrew heidelberg helm helsinki here hermite herr hessenberg hessian hilbert
hint hints houston how html http https hub hungarian hungary hurwitz hypergeometric i ibm icon
ideal identidad identification identifiers idle ids idx if imaging imap implies improved in
indexed india indonesia industrial inexact inf inference info institute instruction instrument
insurance int intel intelligence interactive interfaces internet interpreter interruption
intrinsicable introduction ios ipv iran iraq is islands israel issues istio it italian italy its
jaccard jacobi jacobian jacobians january japan japanese java javascript jenkins jest jinja jira
job joint json july jupyter jython kafka kaggle kaiser katakana kelvin kenya keras kerberos ket
kibana kinesis kingdom knuth kong korea korean kotlin kronecker krylov kubernetes kullback
laboratory labs lagrange lagrangian laguerre lambda lanczos landau laplace laplacian laravel latin
latvia layout ldap leaf learning lecture legendre lemma len lenovo letter letters lib
libphonenumber lie lifecycle linux lisbon lisp listener literals lithuania live llama loader loan
london luhn luxembourg mac mach machine macintosh macos madame madrid magics mail makefile
malaysia malta managed management manager manchester manual maple mappings mar markdown markov
markup math mathematica mathematics mathematik matlab matplotlib maven mechanics media meijer
melbourne mercurial mersenne meson meta metric metrics metropolis mexico microsoft mij milan
mining minipass misc mises miss mistral mobius mocha mod modeling modifier mon monday mongo mono
monomial monsieur monte montreal morocco mozilla mr mrs ms mul muls multi munich must mysql
nacional nagle nand nans naples national naturals neovim netflix netherlands networks newton next
nginx nigeria no node nokia nomad non none nones nor north norway not notation note notebook
notion november npm numba numpy nuxt nvidia nyquist oauth observation oct octave october of office
ok okta ollama omega on only openai opera operation ops optimizer or oracle ordinal ordinary
origin oslo out outcome outputs overlapped oxford packer pade pages pakistan pandas parallel param
parametric params parargs paris pascal password pauli payment pdb percolator perl permanent
permanently permissions personal peru pexpect phase phi philadelphia philippines physics pickler
ping pipeline plan planck plane planning plate platforms playwright plotly plugin plus pm
pochhammer pointer poisson poland policies polish poly polygon polynomials polytechnic pong pool
popen portugal portuguese posix postgres postmaster pow prague prediction preprocessor
presentation presidio press prime printable printer pro problems procedures proceedings processing
production prof professor program programming prometheus promotion proof protobuf protocols
provider pseudo publisher pulumi punctuation puppet pygments pyre pytest python pythons qualcomm
qualifier quantity quantum quasi question rabbit rails ram ranking ratio rationals rayleigh react
readline reals recipes recipient recognition recognizer red redhat redis regional registration
registro regression rel relational relationals remainder remix reporter reports repository
representations republic requirement research resident resolution resolver resources rest
restarted retain revenue review rica riccati riemann rights ring ritz river role romania rome
rounded route router routines ruby runge runner russian rust rustc safari salt saml samsung san
sans sat satisfiable saturday scala scanner scheduler schemas science sciences scientific scipy
screen script scrollbar seaborn seattle sec section security see selector selenium semaphore
sentry sep september serbia serial serializer serverless services settings shall shanghai shanks
she should sieve signals since singapore singleton singularity sir sized slack slovak slovakia
slovenia smart smtp soap social society software solaris solver some sons sony south spain span
spanish spark speakeasy spectral speech sphinx splunk spring springer sqlite squared squares ssh
ssl stanford started stash stata statistic stderr stdin stdout stieltjes stirling stockholm str
streamlit street stripe struct structure student studio study sub subnet subprotocol subs
subscription subset suite summary sun sunday supplement suse svelte swagger swarm sweden swedish
swift switzerland sydney sylvester symfony symmetry symposium syria systems tables tamil tanzania
tarball tarjan tax taxpayer taylor tcl tcp team technical technology telnet templates tensorflow
terminator terraform tester thai thailand that the theme then theorem theoretical there these they
thinc thing this those thursday timer tip tix tkinter tls to todo toeplitz tokenizer tokyo toml
tool topics torch toronto tracer transformer transformers translator transport traversable trees
trello triangle tributaria true ttk tuesday tukey tunisia turkey turkish twilio twitter typescript
ubuntu udp uganda ukraine unavailable underflow unequality unicode unified uniform unions unit
united university unix unless unsatisfiable until use used using vagrant vancouver vandermonde var
variants vary vault vectors verhoeff vertex vienna vietnam vim vision visitor visual vite vol
volume voronoi vpn vue warning warsaw was we weak web webkit webpack wednesday were werkzeug what
wheel when where which while who why wiener wigner wikipedia wiley win windows with word workspace
world would writer wronskian xcode xml xor xxx yaml yarn yes ynm york you zealand zeta zipf zone
zones zsh zurich
"""
#: Function words, products, languages, places, months, sciences and their eponyms.
TRADE: Final = frozenset(_TRADE.split())

_GIVEN = """
aaron abby abdul abdullah abel abigail abraham ada adam adele aditya adrian adriana adrien agata
agatha agnes agnieszka agustin ahmad ahmed aidan aiko aileen aimee aino aisha aitana ajay akiko
akira alain alan alana alba albert alberto aldo alejandra alejandro aleksander aleksandr
aleksandra alena alessandra alessandro alessia alessio alex alexander alexandra alexandre
alexandros alexei alexis alfonso alfred alfredo ali alice alicia alina aline alison allan allison
alma alois alvaro alyssa amal amalia amanda amandine amara amaury amber amelia amelie amina
aminata amir amit amparo amrita amy ana anabel anais anand ananya anastasia anatole anders andre
andrea andreas andrei andres andrew andrey andrzej andy aneta angel angela angelica angelika
angelina angelo angelos anika aniket anil anita anja anjali ann anna annabelle anne anneke
annelies annette annie annika anouk ansgar anthony antoine antoinette anton antonella antoni
antonia antonina antonino antonio antonios antti anwar anya apostolos april arash ariadna ariana
arianna arjun arlette armand armando armin arnaud arne arnold arthur artur arturo arun arvid asa
asha ashley ashok asta astrid asuka athanasios athena audrey august auguste augustin aurelie
aurelien aurora axel ayesha aylin ayse aziz barbara barbora barry bart bartosz bashir bastien
beata beate beatrice beatriz belen ben benedetta benedict benedikt benita benito benjamin benoit
bernadette bernard bernardo bernd bernhard bert bertha bertrand beth bettina betty bianca bilal
bill birgit birgitta bjarne bjorn blanca blanche blazej bob bogdan bojan boris borja bozena brad
bradley brandon branislav brenda brendan brent brett brian bridget brigitte britta bruce bruno
bryan burkhard caitlin caitlyn calvin camila camilla camille candice candido carina carl carla
carlo carlos carlotta carmela carmelo carmen carol carole carolin carolina caroline carolyn carrie
carsten casey caspar cassandra catalina catarina caterina catharina catherine cathy cayetana
cecile cecilia cedric celeste celia celine cesar cesare chad chandra chantal charlene charles
charlie charlotte chelsea chen cheryl chiara chloe chris christa christel christelle christian
christiane christina christine christoph christophe christopher christos ciara cindy ciro claire
clara clarisse claude claudette claudia claudio claus clemence clemens clement clive colette colin
colleen concepcion connor conor conrad constance constantin constantinos consuelo cora coralie
cordula corinna corinne cornelia cornelius cosimo courtney craig cristian cristiana cristiano
cristina cristobal crystal curtis cynthia cyril dagmar daisuke daisy dale damian damiano damien
damir dan dana daniel daniela daniele danielle danilo danny danuta daphne daria dariusz darko
darren dave david davide dawn dean debbie deborah debra deepak delphine denis denise dennis derek
desiree detlef devin diana diane didier diego dieter dietmar dietrich dimitra dimitri dimitrios
dimitris dina dino dirk divya dmitri dmitry dolores dominic dominik dominika dominique donald
donata donatella donato donna doreen doris dorothea dorothee dorothy doug douglas duarte duncan
dustin dylan earl ebba eberhard ed eddie edgar edith edmund edoardo eduard eduarda eduardo edward
edwin eero egon eileen ekaterina elaine eleanor elena eleni eleonora elfriede eliane elias elif
elin elina eline elisa elisabeth elise elizabeth elke ella ellen ellie elodie eloise elsa elsbeth
else elvira elzbieta emanuel emanuela emi emil emilia emiliano emilie emilio emily emma emmanuel
emmanuelle enrica enrico enrique enzo eric erica erich erik erika erin ernest ernesto ernst erwin
esben esteban estefania estelle esther ethan etienne eugen eugene eugenia eugenio eunice eva evan
evangelos evelyn evelyne ewa ewald eyal fabian fabiana fabien fabienne fabio fabiola fabrice
fabrizio fadi faisal faith fang fanny farah farid farouk fatima fatma fatou federica federico
felicia felicity felipe felix feng ferdinand ferenc fernanda fernando filip filipa filipe filippa
filippo finn fiona fiorella flavia flavio fleur flora florence florent florentina florian floriane
fotini frances francesca francesco francine francis francisca francisco franck franco francois
francoise franjo frank frantisek franz franziska fred freddy frederic frederik frederique fredrik
freya frida frieda friedrich fritz gabor gabriel gabriela gabriele gabriella gaelle gareth gary
gaspard gaston gaurav gavin geert geeta gemma gene genevieve geoff geoffrey georg george georges
georgia georgina georgios gerald geraldine gerard gerardo gerd gerda gerhard german germana
gertrud gertrude ghassan gheorghe ghislaine giacomo giancarlo gianluca gianni gilbert gilberto
gilles gina ginevra gino giorgia giorgio giorgos giovanna giovanni gisela giulia giulio giuseppe
giuseppina gladys glen glenn gloria gonzalo goran gordon grace graciela graham grazia greg gregor
gregory greta grzegorz guadalupe gudrun guido guilherme guillaume guillermo gundula gunnar gunter
gunther gustav gustave gustavo guy gwen gwendolyn gyorgy habib hakan hakon halina hamid hamza hana
hani hank hanna hannah hanne hannelore hannes hannu hans hao harald harold harriet harry hartmut
haruka haruki hasan hassan hazel heather hector hedwig heidi heike heiko heiner heinrich heinz
helen helena helene helga helmut hendrik henri henriette henrik henrike henrique henry herbert
heribert herman hermann hermine hernan herve hicham hideo hilary hilda hilde hildegard hiroko
hiroshi holger holly hong horst hortense howard hubert hubertus hugh hugo hugues hui humberto
husein hussein iain ian ibrahim ida ignacio ignazio igor ilaria ildiko ilias ilka ilona ilse imke
immaculada imran ines inga ingeborg ingeburg ingo ingrid inka inmaculada ioana ioannis ion irena
irene irina iris irma irmgard isaac isabel isabella isabelle ishaan isidoro ismael ismail istvan
ivan ivana ivano ivar ivo ivona iwona izabela jack jackie jacob jacopo jacqueline jacques jaime
jake jakob jakub jamal james jamie jamila jan jana jane janet janice janina janine janos janusz
jaqueline jared jarmila jaroslav jasmin jasmine jason javier jay jean jeanette jeanne jeannette
jeff jeffrey jelena jenna jennifer jenny jens jeremy jeroen jerome jerry jerzy jesper jesse
jessica jessie jesus jie jill jim jimmy jing jiri joachim joan joana joanna joanne joao joaquin
jochen jody joe joel joelle joerg johan johann johanna johannes john johnny jolanda jolanta jon
jonas jonathan jordan jordi jorg jorge jorgen jorn josef josefa josefina joseph josephine josh
joshua josiane josip jouko joyce jozef juan juana juanita judith judy juergen jukka jules julia
julian juliana juliane julie julien juliette julio julius jun junko justin justine justyna jutta
kaarina kacper kai kaisa kalle kamil kamila kaori kareem karel karen karim karin karina karl karla
karol karolina karoline karsten kaspar kasper katarina katarzyna kate katerina katharina katherine
kathleen kathrin kathryn kathy katie katja katrin katya kavita kavya kay kazimierz kazuo keiko
keith kelly ken kenji kenneth kent kenta kerstin kevin khadija khaled khalid kieran kim kimberley
kimberly kiran kirsten kirsty klaas klara klaus konrad konstantin konstantina konstantinos
kornelia krishna kristen kristian kristiina kristin kristina kristof kristoffer krystyna krzysztof
kurt kyle kyriakos laila lajos lakshmi lana lara larissa larry lars laszlo laura laure lauren
laurence laurent laurie layla lea leah leandro lech lee lei leif leila lena lene leo leon leona
leonard leonardo leonhard leonie leonor leopold leroy lesley leslie leszek leticia lev lewis li
lia liam liane lidia lidija liliana liliane lilli lillian lilly lin lina linda lindsay lindsey
line linus lionel lisa lise liselotte liv livia liz lloyd logan loic lois lola lorena lorenz
lorenzo loretta lori lothar lotte louis louisa louise luc luca lucas lucia lucian luciana luciano
lucie lucien lucienne lucila lucille lucinda lucjan lucrezia lucy ludovic ludovica ludwig luigi
luis luisa luiz lukas lukasz luke luna lutz lydia lydie lynn maarten maciej maddalena madeleine
madison mads magali magda magdalena magnus mahmoud mai maia maike maja makoto malcolm malgorzata
malik malin malte mamadou mandy manfred manish manon mansour manuel manuela marc marcel marcela
marcelle marcello marcelo marcin marco marcos marcus marek maren margaret margarete margarida
margarita margaux margherita margit margot margrit marguerite maria mariam mariama marian mariana
marianna marianne mariano marie mariela marielle marika mariko marilyn marina marine mario marion
marisa marisol marissa marita marius mariusz marjorie mark marko markus marlene marlies marta
martha martin martina martine marvin mary maryam masako masao massimo mateo mateusz mathias
mathieu mathilde matilda matilde matt matteo matthew matthias matthieu matti maud maura maureen
maurice mauricio maurizio mauro max maxime maximilian maximiliano maya mayra meera megan megumi
mehdi mehmet mei melanie melina melinda melissa melvin mercedes mia micaela michael michaela
michal michel michela michele micheline michelle michiko mickael midori miguel mihai mika mikael
mike mikhail mikko mikolaj mila milan milena milica milos min mina minako ming miranda mirela
miriam mirja mirko miroslav mirta misaki mitchell mitsuko mohamed mohammad mohammed mohan moira
molly mona monica monika monique moritz morten moses mounir muhammad mukesh murat muriel murielle
mustafa myriam myrtle nabil nadezhda nadia nadim nadine nadja nancy naoki naoko naomi nasser
natacha natalia natalie natascha natasha nathalie nathan nathaniel neha neil nele nelly nelson
nerea nerys nestor niall niccolo nicholas nick nicola nicolai nicolas nicole nicoletta nicolo
niels nigel nikhil niklas nikola nikolai nikolaos nikolas nikos nils nina nisha noah noel noelle
noemi noor nora norbert noreen noriko norma norman nour nuno nuria octavia octavio odette odile
ofelia ola olaf olav ole oleg olena olga oliver olivia olivier olof omar ondrej oriana orlando
ornella orsolya osama oscar oskar osvaldo oswald otto owen pablo paige paloma pamela panagiotis
paola paolo pascal pascale pascual pasquale patrice patricia patricio patrick patrizia patryk paul
paula paulette paulina pauline paulo pavel pavla pawel pedro peggy penelope penny per pernille
perrine peter petr petra petri petros phil philip philipp philippa philippe philippos phillip
phoebe phyllis pia pier piero pierre pierrette pieter pietro pilar pinar ping piotr pius pooja
poul prakash pranav preeti priya priyanka qiang rachel rafael rafaela raffaele raffaella rahul
raimund rainer raisa rajesh rajiv rakesh ralf ralph ramesh rami ramiro ramon ramona randall randy
rania raphael raquel rashid raul ravi ray raymond rebecca regina reginald regine rei reiner
reinhard reinhold remi remigiusz remy renata renate renato renaud rene renee reza ricarda ricardo
riccardo richard rick rita ritu rob robert roberta roberto robin rocco rocio rod rodney rodolfo
rodrigo roger rohan rohit roland rolando rolf romain roman romana romeo romy ron ronald ronan rory
rosa rosalia rosalie rosalind rosanna rosario rosemarie rosemary rosina ross roswitha roxana
roxane roy ruben rudiger rudolf rui rupert russell ruth ryan ryo sabine sabrina sachiko said
sakura salim sally salma salvador salvatore sam samantha sami samir samira samuel sandeep sandra
sandrine sandro sandy sanjana sanjay santiago santino sara sarah sascha saskia satoshi saverio
scott sean sebastian sebastiano sebastien selina selma serena serge sergei sergey sergio seth
severine shane shannon sharon shaun shawn sheila shinji shirin shirley shreya sibylle siegfried
siegrid sigmar sigrid silke silvana silvia silvie silvio simon simona simone sina siobhan sixtine
slawomir sofia sofie solange solene sonia sonja sophia sophie soren spyridon stacey stacy
stanislav stanislaw stavros stefan stefania stefanie stefano steffen stella stephan stephane
stephanie stephen steve steven stewart stig stuart sunita suresh susan susana susann susanna
susanne suse suzanne suzette svein sven svenja svetlana swati sybille sylvain sylvia sylvie szymon
tadeusz takashi takeshi tamara tamas tammy tanguy tania tanja tanvi tanya tara tarik tariq taro
tatiana tatjana taylor ted teodora teodoro terence teresa terry tess tessa thaddeus thea theda
theo theodor theodora theodore theodoros theresa therese thibault thibaut thierry thilo thomas
thor thorsten tiago tibor tiffany tilman tim timea timo timothee timothy tina tino tobias todd tom
tomas tomasz tommaso tommy tomoko tone toni tony torben tore torsten tove tracey tracy travis
trevor tristan trond troy tullio tyler udo ugo ulf ulises ulla ulrich ulrike umberto ursula
urszula usha ute uwe vaclav valentin valentina valentine valeria valerie valerio vanesa vanessa
vasile vasiliki vasilis vera verena verity veronica veronika veronique vicente vicki vicky
victoire victor victoria vijay vikram viktor viktoria vilma vincent vincenza vincenzo vinod viola
violet violetta virginia virginie vito vittoria vittorio vivek vivian viviana vivien vivienne
vladimir vlado volker waldemar walid wallace walter waltraud wanda warren wayne wei wendy wenzel
werner wesley wieslaw wilfried wilhelm wilhelmina will willem william willy winfried winifred
wioletta wladyslaw wojciech wolfgang wouter xavier xiao ximena xin yan yann yannick yannis yara
yasin yasmin yasmine ying yoko yolanda yolande yorgos yoshiko youssef yu yuki yuko yumi yuri yusuf
yves yvette yvonne zacharias zachary zahra zainab zbigniew zdenek zdenka zeynep zita zlatko zoe
zofia zoltan zsolt zsuzsanna zuzana
"""
#: First names, without accents.
GIVEN: Final = frozenset(_GIVEN.split())
