"""Tables of everyday English for :mod:`palimpsest.search.words`, which tells their use.

Groups are parted by ``;`` and their words by spaces. A category is one line (and what is indented
under it): its names, a colon, its members. Words of many everyday senses ("kind", "old", "see")
are left out on purpose: what they would add is mostly something else.
"""

IRREGULAR = """arise arose arisen;bear bore borne;beat beaten;become became;begin began begun;
bend bent;bind bound;bite bit bitten;blow blew blown;break broke broken;bring brought;
build built;burn burnt;buy bought;catch caught;choose chose chosen;come came;deal dealt;dig dug;
draw drew drawn;dream dreamt;drink drank drunk;drive drove driven;eat ate eaten;
fall fell fallen;feed fed;feel felt;fight fought;find found;fly flew flown;
forget forgot forgotten;forgive forgave forgiven;freeze froze frozen;get got gotten;
give gave given;go went gone;grow grew grown;hang hung;hear heard;hide hid hidden;hold held;
keep kept;know knew known;lay laid;lead led;learn learnt;leave left;lend lent;lie lain;
light lit;lose lost;make made;mean meant;meet met;pay paid;ride rode ridden;ring rang rung;
rise rose risen;run ran;say said;see saw seen;seek sought;sell sold;send sent;
shake shook shaken;shine shone;shoot shot;show shown;sing sang sung;sink sank sunk;sit sat;
sleep slept;speak spoke spoken;spend spent;stand stood;steal stole stolen;stick stuck;
strike struck;swim swam swum;take took taken;teach taught;tear tore torn;tell told;
think thought;throw threw thrown;understand understood;wake woke woken;wear wore worn;win won;
write wrote written;child children;man men;woman women;person people;foot feet;tooth teeth;
mouse mice;life lives;wife wives;knife knives;shelf shelves;analysis analyses;index indices"""
"""Forms of one word that stemming does not join."""

DERIVED = """analysis analyse analyze;art artist artistic;belief believe;birth born;
breath breathe;choice choose chose;cloth clothing clothes;death die died dead;decision decide;
depth deep;economy economic;energy energetic;fear afraid;flight fly flew;food feed;
friend friendship;gift give gave;growth grow grew;health healthy;history historic;
knowledge know knew;length long;loss lose lost;marriage marry wedding;medicine medical;
memory remember;music musician musical;nature natural;pain painful;
photo photography photographer;politics political politician;practice practise;pride proud;
proof prove;relief relieve;religion religious;safety safe;sale sell sold;
science scientist scientific;seat sit sat;song sing sang singer;speech speak spoke;
strength strong;success succeed successful;tradition traditional;truth true;use user usage;
voice vocal;weight weigh;width wide;wisdom wise;wood wooden;wool woolen;error erroneous;
failure fail;removal remove;arrival arrive;approval approve;proposal propose;delivery deliver;
discovery discover;recovery recover;injury injure hurt;theft steal stole;maintenance maintain;
appearance appear;existence exist;difference differ different;presence present;
explanation explain;pronunciation pronounce;destruction destroy;reduction reduce;
description describe;subscription subscribe;solution solve;registration register;
installation install;migration migrate;deployment deploy;permission permit;collision collide;
communication communicate;participation participate participant;teach teacher teaching;
bake baker bakery;dance dancer;drive driver;play player;run runner;write writer;swim swimmer;
hike hiker;climb climber;train trainer;own owner;lead leader leadership;speak speaker;
read reader;paint painter;act actor actress;direct director;edit editor;
invent inventor invention;found founder;farm farmer farming;hunt hunter;fish fisherman;
garden gardener;knit knitting;sew sewing;sculpt sculptor sculpture;guitar guitarist;
piano pianist;drum drummer;violin violinist;tour tourist tourism;journal journalist journalism;
psychology psychologist;biology biologist;chemistry chemist chemical;physics physicist;
mathematics math maths;activism activist;environment environmental;culture cultural;
finance financial;benefit beneficial;influence influential;able ability;response respond;
expensive expense;defend defense;intend intention;extend extension;conclude conclusion;
divide division;explode explosion;invade invasion;admit admission;submit submission;
define definition;add addition;repeat repetition;qualify qualification;identify identification;
modify modification;verify verification;notify notification;publish publication publisher;
laugh laughter;sign signature;depart departure;hate hatred;warm warmth;heat hot;anger angry;
hunger hungry starving;thirst thirsty;sleep asleep nap;luck lucky fortunate;noise noisy loud;
mess messy;wealth wealthy;sun sunny;cloud cloudy;wind windy;fog foggy;storm stormy;
scare scared scary frightening;taste tasty flavor flavour;salt salty;spice spicy;dirt dirty;
guilt guilty;mud muddy;sand sandy;smoke smoking;ill illness;weak weakness;dark darkness;
lonely loneliness;fit fitness;aware awareness;anxious anxiety;patient patience;honest honesty;
curious curiosity;creative creativity create;generous generosity;silent silence;absent absence;
violent violence;evident evidence;important importance;significant significance;
elegant elegance;distant distance far;simple simplify;beauty beautiful gorgeous;
clean cleaning tidy;mystery mysterious;danger dangerous;fame famous;adventure adventurous;
magic magical;compare comparison;argue argument;treat treatment;move movement;pay payment;
ship shipment shipping;bag baggage;break breakage;assist assistant assistance;
account accountant accounting;contest contestant;immigrate immigrant immigration migrate;
apply applicant application;consult consultant consulting;serve servant service;
inspect inspection inspector;collect collector collection;donate donor donation;
invest investor investment;educate educator education;narrate narrator;
translate translator translation;operate operator operation;create creator creation;
decorate decorator decoration;illustrate illustrator illustration;
employ employee employer employment;train trainee;interview interviewee;prince princess;
waiter waitress;host hostess;hero heroine;advise advice adviser advisor;lend loan lent;
live life alive;compete competition competitor competitive;produce producer production;
perform performer performance;explore explorer exploration;assemble assembly;refuse refusal;
survive survivor survival;possess possession;vary various variety;prefer preference;
refer reference;depend dependent dependency;insist insistence;attend attendance;
accept acceptance;disappear disappearance;guide guidance;insure insurance;resist resistance;
observe observation;reserve reservation booking;conserve conservation;prepare preparation;
declare declaration;inspire inspiration;combine combination;examine examination exam;
imagine imagination;organize organization organizer;realize realization;civilize civilization;
high height tall;young youth;free freedom;bored boredom boring;king kingdom;partner partnership;
member membership;intern internship;scholar scholarship;neighbor neighborhood;child childhood;
mother motherhood;parent parenthood parenting"""
"""Words of one family that stemming does not join: a verb, who does it, what comes of it."""

SYNONYMS = """girlfriend gf;boyfriend bf;dad father daddy;mom mother mum mommy;
grandma grandmother granny nana;grandpa grandfather granddad;kid child youngster;
dog puppy pup doggy;cat kitten kitty;bike bicycle cycling cyclist;
photo picture pic photograph snapshot image;movie film;tv television;car automobile vehicle;
buy bought purchase acquire;begin began start;end finish stop;journey trip voyage;store shop;
job work career profession occupation employment;house home;family fam relatives;
doctor physician;phone cellphone smartphone;university college uni;school education edu;
big large huge;small little tiny;sick ill unwell;illness disease sickness;present gift;
holiday vacation getaway;song tune;contest competition tournament;fix repair mend;
crash accident wreck;glad happy joyful;happiness joy;afraid scared frightened;
workout exercise gym fitness;baby infant newborn;teenager teen adolescent;company firm business;
boss manager supervisor;coworker colleague;apartment flat;exam test;lawyer attorney;
airplane plane flight;buddy friend pal;delicious tasty yummy;
therapist counselor therapy counseling psychologist;tired exhausted fatigue;angry mad furious;
sad upset unhappy;excited thrilled stoked;nervous anxious worried;anxiety worry nerves;
stress pressure stressful;calm peaceful soothing;quit resign;donate donation charity;
fundraiser fundraising charity;injury injured hurt;moved relocated;
recommend suggest recommendation suggestion;advice tips suggestion;encourage motivate inspire;
volunteer volunteering;win won victory;award prize trophy medal;picnic barbecue bbq;
tasks chores;hobby pastime interest;beach coast shore seaside;hike trail trek;forest woods;
rain rainy;snow snowy;cook recipe;author writer;book novel;game gaming;band concert gig;
concert show performance;theater theatre play;neighborhood neighbourhood area;color colour;
favorite favourite;beverage drink;supper dinner;soccer football;sneakers shoes;pants trousers;
fall autumn;bug error defect;deploy deployment release rollout;configuration config setting;
database db;repository repo;authentication auth login;app application;documentation docs;
delete remove;price cost expense;meeting call appointment;email mail;password credential;
server host;laptop computer pc;crash outage incident;ticket issue;bill invoice;salary pay wage;
fridge refrigerator;taxi cab;luggage suitcase baggage;couch sofa;garbage trash rubbish;
cookie biscuit;goal aim ambition aspiration;dream aspiration;
challenge difficulty obstacle struggle hurdle;problem trouble issue;setback challenge mishap;
achievement accomplishment milestone;achieve accomplish;hope wish;hate dislike;prefer favorite;
interested interest passion;passionate passion;participate join attend;partake participate;
attend went join;travel trip visit;abroad overseas;receive got;create made make;
construct build built;organize arrange plan;host organize;spouse husband wife partner;
husband hubby partner;sibling brother sister;divorce separated;romantic date dating;
pregnant pregnancy expecting;adopt adoption;rescue shelter;veterinarian vet;church faith;
election vote;transgender trans;assist help;assistance help;aid help;teach instructor lesson;
teacher instructor;student pupil;study learn;degree graduate;graduate graduation;
scholarship grant;research study looking;investigate research;explore discover;
meditate meditation mindfulness;hospital clinic;surgery operation;medicine medication pill drug;
diet nutrition eating;sleep insomnia;overweight weight;paint painting painter;
draw drawing sketch;photography photographer camera;write writing writer;poem poetry poet;
story tale;dance dancing dancer;sing singer singing;act acting actor;perform performance stage;
run running jog marathon;swim swimming pool;ski skiing;surf surfing;fish fishing;climb climbing;
bowl bowling;flood flooded flooding;theft stolen robbed;steal stolen theft robbery;
break broke broken damaged;damage damaged broken;find found discover;
frustrated frustrating annoyed;frustration annoyed frustrating;disappointed disappointing;
grateful thankful appreciate;lonely alone;embarrassed embarrassing;surprised surprise;
confident confidence;brave courage;personality trait;clothing clothes outfit;dress wear outfit;
wear wore outfit;decor decoration;furniture decor;yard garden backyard;rent lease landlord;
mortgage loan;debt loan;money cash funds;wealthy rich;poor poverty;homeless shelter;
country nation;heritage culture ancestry;famous celebrity popular;fame popular fans;fan fans;
sponsor endorsement brand;endorsement deal sponsor;contract deal;album record;
record recorded recording;studio recording;tour touring;podcast channel;video vid youtube clip;
blog website;online internet;social instagram facebook twitter;message text;
chat talk conversation;argue argument fight fought;apologize sorry;celebrate celebration party;
anniversary celebrate;birthday bday;ceremony ritual;disability disabled wheelchair;
cold freezing;scenery landscape view;indoor inside;animal wildlife;sea ocean;river stream;
hill mountain;vegetarian vegan;meat chicken beef pork;dish recipe meal;cuisine food;
restaurant cafe diner eat;bar pub;breakfast brunch;snack treat;dessert sweet;healthy nutritious;
spicy hot;wine winery;beer brewery;coffee cafe;tea teapot;necklace pendant;
symbol symbolize represent;meaning mean symbolize;memory memories remember;unique special;
souvenir memento;treasure cherish;skill talent ability;progress improvement;
change transformation;transition change;expand grow growth;startup business;
entrepreneur business owner;customer client;market marketing;promote advertise marketing;
advertise ad marketing;network networking;interview applied application;hire hired hiring;
fired laid;promotion promoted;retire retirement;volunteer charity;
nonprofit charity organization;organization group charity;event gathering;meet met meetup;
reunion reunite;join joined member;club group;team squad;coach trainer coaching;
train training practice;practice rehearse rehearsal;match game;score points;
championship title finals;race marathon;equipment gear;engine motor;mechanic garage auto;
garage shop;restore restoration;hybrid electric;device gadget;software program;
program programming code;code coding programming;programmer developer coder;website site web;
design designer;deadline due;schedule calendar timetable;busy hectic;frequently often regularly;
regularly often weekly every;routine daily habit;often usually;annually yearly;weekly week;
monthly month;recently lately;currently now;eventually finally;children kids;sons son;
parents parent mom dad;grandparents grandma grandpa;cousin relative;nephew niece;
roommate flatmate;neighbor neighbour;mentor mentoring mentorship;role model;
idol hero inspiration;inspired inspiration;motivation motivate;reason because;cause because;
choose choice pick;select choose chose pick;view opinion;react reaction;reaction felt;
residence live home;reside live;live living;locate located;destination place trip;city town;
rural countryside village;urban city;suburb neighborhood;foreign overseas;language speak;
fluent speak;reading read;literature books;genre type;comic comics manga;magazine article;
article newspaper blog;series show season;episode series;documentary film;director filmmaker;
screenplay script;joke funny humor;puzzle jigsaw;chess boardgame;
console playstation xbox nintendo;enjoy love;caring thoughtful;improve improvement;
meaningful important;unforgettable memorable;lgbtq lgbt queer;relax unwind chill calm destress;
visit went;significance meaning;decease died;wedding married;elderly senior;
class course lesson workshop;emotion feeling mood;location place venue spot;previously earlier;
obtain get got;talented talent;wellness health;gender male female;sunset dusk;
sunrise dawn;terrible awful horrible;wonderful amazing awesome fantastic;
beautiful gorgeous stunning;clever intelligent smart;weird strange odd;hilarious amusing funny;
cheap inexpensive affordable;expensive costly pricey;huge enormous gigantic;mistake error;
confidential secret;uncommon rare;homework assignment;semester term;professor lecturer;
tuition fees;dormitory dorm;essay paper;dissertation thesis;laboratory lab;
calculus algebra math;hostel hotel airbnb;metro subway;highway freeway;restroom bathroom toilet;
basement cellar;attic loft;renovate renovation remodel redecorate;tidy declutter clean;
supermarket grocery groceries;discount bargain sale;parcel package;wallet purse;
spectacles glasses;engagement engaged fiance fiancee proposal;wedding bride groom;
honeymoon newlywed;breakup split;hug embrace;toddler baby;babysitter babysit nanny;
kindergarten preschool daycare;nurse nursing;dentist dental;ambulance emergency;
fracture fractured broken;sprain twisted;ache sore pain;vaccine vaccination shot;
coronavirus covid pandemic;prescription medication;depression depressed;grief grieving mourning;
rehab rehabilitation;cigarettes smoking;insomnia sleepless;nightmare dream;chef cook;bbq grill;
gelato sherbet icecream;noodles ramen;stew broth soup;candy sweets;alcohol liquor booze;
cinema theater;protagonist character;cartoon animation animated;lyrics song;vinyl album;
vocalist singer;choir chorus;festival fest;karaoke singing;teammate team;stadium arena;
athlete player;league championship;skateboard skating;snowboard ski;scuba snorkel diving;
kayak canoe;summit peak;videogame gaming;watercolor painting;ceramics pottery;handmade diy;
exhibition exhibit;selfie portrait;graffiti mural;makeup cosmetics;haircut hairstyle;
perfume fragrance;scent smell aroma;bouquet flowers;lawn grass;ranch farm;
stargazing stars telescope;astronaut nasa;tornado hurricane;wildfire fires;recycling recycle;
police cop;jail prison;veteran military;army military;discrimination racism;bible scripture;
mosque temple;muslim islam;jewish judaism;buddhist buddhism;income earnings;shares stock;
bitcoin crypto;pension retirement;workplace office;recruiter recruit;resume cv;
commute commuting;certificate certification;architect architecture;carpenter woodworking;
firefighter fireman;reporter journalist;tablet ipad;wifi internet;webpage website;malware virus;
drone quadcopter;monitor screen;earbuds headphones;cheerful happy;annoyed irritated;
terrified scared;stressed overwhelmed;jealous envious envy;ashamed shame;
determined determination;outgoing sociable;shy introvert;stern strict;dedicated committed;
objective goal;guidance advice;enhance improve;postpone postponed delay;cancel cancelled;
reveal show;borrow lend;invite invitation;promise pledge;apology apologize;forgive forgiveness;
compliment praise;criticism criticize;complaint complain;giggle laugh;tears cry;grin smile;
stroll walk;sprint run;annual yearly;decade years;outcome result;hazard danger;secure security;
catastrophe disaster;unexpected surprise;tradition custom;audience crowd;followers fans;
guest visitor;rival opponent;downtown city;village town;skyscraper tower;harbor port;
nightclub club;bakery pastry;campus college"""
"""What says the same, most of all where a question is formal and talk is not."""

CATEGORIES = """
abroad: france italy japan spain london paris
activity: hiking camping swimming painting pottery running cycling dancing yoga climbing fishing
 volunteering kayaking surfing gardening cooking reading picnic bowling skiing skating biking
 baking museum zoo concert
adventure: hiking skydiving rafting climbing
animal: dog cat horse bird fish rabbit turtle lizard snake bear deer wolf cow pig sheep chicken
 duck goat elephant lion tiger monkey dolphin whale owl eagle fox squirrel
appliance: fridge oven stove microwave washer dryer dishwasher toaster blender
art: painting drawing sculpture pottery photography mural sketch canvas
artist: painter singer musician sculptor
artwork: painting drawing sculpture mural sketch
asian: japan china korea thailand vietnam
bakery: bread cake pastry croissant
belief: god faith church
bird: eagle owl hawk parrot robin hummingbird
board: chess monopoly scrabble catan
body: arm leg head back knee shoulder
book: novel author chapter read memoir biography
breakfast: pancakes eggs waffles cereal oatmeal toast bacon
breed: labrador retriever shepherd poodle husky terrier
camping camp: tent campfire
car: ford toyota honda bmw tesla mustang ferrari porsche chevrolet audi jeep sedan suv
 convertible prius
celebration: birthday wedding anniversary graduation party
child: son daughter kid baby toddler teen
chore: dishes laundry vacuum cleaning
city: london paris tokyo york boston chicago seattle miami rome berlin barcelona francisco
 angeles sydney toronto vancouver dublin amsterdam vegas orleans austin dallas denver portland
clothes: shirt dress jacket shoe jeans coat hat sweater skirt scarf socks boots gloves hoodie
color: red blue green yellow purple orange pink black white brown gray grey gold silver violet
 turquoise
community: neighbors volunteers shelter church charity
console: playstation xbox nintendo switch ps5 wii
contest: dance singing art photography cooking
continent: africa asia europe australia
country: usa america canada mexico england france germany spain italy sweden norway japan china
 india brazil australia thailand ireland greece portugal switzerland netherlands turkey egypt
 korea vietnam scotland argentina peru russia poland
course: programming painting cooking yoga pottery
craft: pottery knitting crochet sewing woodworking ceramics clay
creature: dog cat bird fish
crime: theft robbery murder fraud
cuisine: italian mexican chinese japanese indian thai french korean greek
dairy: milk cheese yogurt butter
degree: bachelor master phd diploma
dessert: cake pie cookie cupcake brownie pudding chocolate cheesecake sorbet donut
device: phone laptop tablet computer camera headphones console
diagnosis: diabetes cancer asthma adhd
diet: vegan vegetarian keto gluten
disaster: flood fire earthquake hurricane tornado storm
dish: pasta soup salad curry stew pizza steak lasagna
document: passport license certificate contract
drink: coffee tea beer wine juice water soda cocktail whiskey milk smoothie lemonade espresso
 latte champagne
electronics: phone laptop tv camera headphones console
emotion: happy sad proud excited nervous scared angry grateful anxious relieved
ethnicity: asian black hispanic white latino
european: france germany italy spain paris london
event: concert parade festival conference party wedding fundraiser race workshop gala exhibition
 convention ceremony tournament
exercise: yoga running gym swimming cycling pilates workout jogging weights boxing kickboxing
 zumba aerobics stretching
expense: rent bill mortgage tuition
fabric: cotton silk wool leather denim
family: mother father mom dad sister brother son daughter wife husband kid parent
farm: cow pig chicken horse goat sheep
feeling: happy sad proud excited nervous scared angry grateful anxious relieved overwhelmed
 thrilled
festive: christmas halloween easter thanksgiving
film: comedy drama thriller horror documentary
flower: rose sunflower tulip lily daisy orchid lavender
food: pizza pasta sushi burger salad soup sandwich steak chicken rice bread cheese taco curry
 noodle cake pie cookie muffin pastry seafood shrimp salmon lasagna pancakes waffles beef pork
 egg fries
fruit: apple banana orange strawberry grape lemon peach pear mango blueberry cherry raspberry
 pineapple watermelon
furniture: chair table sofa couch desk bed shelf lamp
furry: cat dog hamster rabbit
game: chess poker monopoly xbox playstation nintendo puzzle card catan scrabble zelda mario
 minecraft boardgame dungeons
gem: diamond ruby emerald pearl
genre: rock jazz classical pop country folk electronic fantasy mystery thriller romance horror
 comedy drama
gift: necklace ring book watch flowers chocolate perfume
grandparent: grandma grandpa grandmother grandfather
hobby: painting pottery reading cooking gardening photography hiking dancing knitting drawing
 writing singing fishing camping baking sewing birdwatching woodworking gaming collecting crafts
 origami sculpting biking
holiday: christmas thanksgiving easter halloween
hometown: born grew
illness: flu cold fever cancer covid infection allergy asthma diabetes migraine
injury: ankle knee wrist shoulder broken sprained sprain
insect: butterfly bee spider ant
instrument: violin guitar piano drum clarinet flute cello trumpet saxophone ukulele bass harp
 banjo keyboard viola harmonica trombone accordion
jewelry: necklace ring bracelet earring pendant
job: engineer teacher nurse doctor manager analyst designer developer lawyer accountant chef
 waiter barista artist writer counselor
kitchenware: pan pot knife oven blender
landmark: tower bridge castle museum statue temple
language: english spanish french german chinese japanese italian python java rust javascript
 portuguese korean mandarin arabic
lgbtq: gay lesbian bisexual transgender pride
magazine: vogue forbes
major: engineering biology business psychology economics history
martial: karate judo taekwondo boxing
material: wood metal glass plastic cotton leather
math: algebra calculus geometry statistics
meal: breakfast lunch dinner supper brunch
meat: chicken beef pork steak lamb turkey bacon
medication: ibuprofen aspirin antibiotic insulin
metal: gold silver iron steel copper
mountain: hike climb ski summit
movie: comedy drama thriller horror documentary
music: song band album concert guitar piano singer tune lyrics
musician: guitarist pianist drummer singer
nationality: american british canadian german french spanish italian chinese japanese indian
nature: mountain forest lake river ocean sunset trail
organization: charity foundation club association
orientation: gay lesbian bisexual straight
outdoors: hiking camping park beach mountain forest lake trail
outing: picnic park zoo museum beach
parent: mother father mom dad
park: trail lake forest nature
pet: dog puppy pup cat kitten hamster rabbit parrot bird fish turtle lizard snake horse guinea
pizza: pepperoni margherita cheese
place: park beach museum cafe restaurant mountain lake city library zoo
planet: mars venus jupiter saturn
plant: flower tree herb cactus succulent tomato
politics political: democrat republican liberal conservative election vote
pollution: plastic waste smog
professional: lawyer doctor engineer teacher
programming: python java javascript
relationship status: girlfriend boyfriend husband wife single married dating partner breakup
 engaged divorced
relative: mother father mom dad sister brother son daughter aunt uncle cousin grandma grandpa
 niece nephew
religion religious: christian catholic muslim jewish buddhist church god faith
reptile: snake turtle lizard gecko
room: kitchen bedroom bathroom basement garage office
science: biology chemistry physics
sea: beach wave surf sail
seafood: shrimp salmon lobster crab fish tuna oyster
season: summer winter spring autumn fall
shoe: sneakers boots sandals heels
show: netflix series season episode
sibling: brother sister twin
skill: cooking coding painting writing
snack: chips cookie popcorn nuts crackers pretzel
social: instagram facebook twitter tiktok
software: excel word photoshop
spice: cinnamon ginger garlic pepper turmeric
sport: soccer football basketball baseball tennis volleyball hockey golf swimming surfing skiing
 snowboarding running cycling boxing climbing yoga skating rugby cricket badminton karate judo
 gymnastics wrestling
state: california texas florida oregon washington colorado michigan ohio georgia nevada
subject: math science history biology chemistry physics literature geography
summer: beach swim camp
sweets: candy chocolate cookie cake
symptom: pain cough fever headache nausea
technology: computer robot software ai app
tool: hammer drill saw screwdriver wrench
toy: doll lego puzzle ball teddy
transport: bus train car plane bike subway taxi
treatment: surgery therapy medication
tree: oak pine maple palm cherry
vacation: hawaii bali beach cruise
vegetable: carrot tomato potato onion pepper lettuce spinach broccoli cucumber bean kale cabbage
 mushroom
vehicle: car truck motorcycle bike bus van scooter boat jeep suv bicycle plane train helicopter
water: lake river ocean sea pool
watersport: surfing kayaking sailing diving snorkeling
weather: rain snow sun wind storm fog sunny cloudy hot cold
weekday: monday tuesday wednesday thursday friday
weekend: saturday sunday
wildlife: deer bear wolf eagle fox elk moose
winter: snow ski skating christmas
"""
"""What an everyday category has in it."""
