-- A database as the library wrote it while the content of messages still stood in
-- assistant_messages: tables, then rows. Long runs of one word are written as expressions.
CREATE TABLE palimpsest_schema (component text primary key, version integer not null) without rowid;
CREATE TABLE assistant_search_sessions (
  number integer primary key,
  session_id text not null unique
);
CREATE VIRTUAL TABLE assistant_fts using fts5 (
  message_id unindexed, role unindexed, speaker unindexed, created_at unindexed,
  said_at unindexed, sitting unindexed, words unindexed, traits unindexed, row unindexed,
  text, tools, about, tokenize = 'porter unicode61'
);
CREATE VIEW assistant_search as select
  rowid as doc, cast(row as integer) as row, message_id, role, speaker,
  cast(created_at as integer) as created_at, cast(said_at as integer) as said_at,
  cast(sitting as integer) as sitting, cast(words as integer) as words,
  cast(traits as integer) as traits, text, tools, about
from assistant_fts;
CREATE TABLE assistant_search_sittings (doc integer primary key);
CREATE VIRTUAL TABLE assistant_fts_grams using fts5 (
  grams, tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* S* Co'"
);
CREATE TABLE assistant_session_numbers (
  number integer primary key,
  session_id text not null unique,
  next_seq integer not null default 1,
  edits integer not null default 0
);
CREATE TABLE assistant_messages (
  session integer not null,
  id text not null,
  seq integer not null,
  run integer not null,
  role text not null,
  created_at integer not null,
  tokens integer not null,
  bytes integer not null,
  revision integer not null default 0,
  extra integer not null default 0,
  as_of integer not null default 0,
  path_length integer not null,
  path_tokens integer not null,
  path_bytes integer not null,
  content text not null,
  primary key (session, id)
) without rowid;
CREATE VIEW assistant_ordered_messages as
select f.rowid as key, m.*
from assistant_fts f cross join assistant_messages m
where m.session = f.rowid / 4294967296 and m.id = f.message_id;
CREATE TABLE assistant_runs (
  session integer not null,
  run integer not null,
  parent_run integer,
  parent_seq integer,
  primary key (session, run)
) without rowid;
CREATE INDEX assistant_runs_by_parent on assistant_runs (session, parent_run, parent_seq);
CREATE TABLE assistant_shifts (
  session integer not null,
  number integer not null,
  run integer not null,
  seq integer not null,
  length integer not null,
  tokens integer not null,
  bytes integer not null,
  primary key (session, number)
) without rowid;
CREATE TABLE assistant_message_pieces (
  key integer not null,
  place integer not null,
  content text not null,
  primary key (key, place)
) without rowid;
CREATE TABLE assistant_media (
  hash text not null,
  place integer not null,
  data blob not null,
  primary key (hash, place)
) without rowid;
CREATE TABLE assistant_media_refs (
  key integer not null,
  pointer text not null,
  header text not null,
  hash text not null,
  primary key (key, pointer)
) without rowid;
CREATE INDEX assistant_media_refs_by_hash on assistant_media_refs (hash);
CREATE TABLE assistant_compactions (
  key integer primary key,
  session integer not null,
  id text not null,
  from_seq integer not null,
  from_run integer not null,
  to_seq integer not null,
  to_run integer not null,
  from_id text not null,
  to_id text not null,
  created_at integer not null,
  tokens integer not null,
  stale integer not null default 0,
  covered_by integer,
  summary text not null
);
CREATE UNIQUE INDEX assistant_compactions_by_id on assistant_compactions (session, id);
insert into palimpsest_schema (component, version) values
  ('messages', 4),
  ('search', 2);
insert into assistant_search_sessions (number, session_id) values
  (1, ''),
  (2, 'others'),
  (3, 'cleared');
insert into assistant_fts (rowid, message_id, role, speaker, created_at, said_at, sitting, words, traits, row, text, tools, about) values
  (4294967297, 'm0', 'user', '', 1700001000000, 1700001000000, 4294967297, 5, 32, 1, 'note 0 of the lighthouse', '', ''),
  (4294967298, 'm1', 'assistant', '', 1700002000000, 1700002000000, 4294967297, 5, 32, 2, 'note 1 of the lighthouse', '', ''),
  (4294967299, 'm2', 'user', '', 1700003000000, 1700003000000, 4294967297, 5, 32, 3, 'note 2 of the lighthouse', '', ''),
  (4294967300, 'm3', 'assistant', '', 1700004000000.0, 1700004000000.0, 4294967297, 7.0, 32.0, 4, 'the edited note says marmalade twice, marmalade', '', ''),
  (4294967301, 'm4', 'user', '', 1700005000000, 1700005000000, 4294967297, 5, 32, 5, 'note 4 of the lighthouse', '', ''),
  (4294967302, 'm5', 'assistant', '', 1700006000000, 1700006000000, 4294967297, 5, 32, 6, 'note 5 of the lighthouse', '', ''),
  (4294967304, 'm7', 'assistant', '', 1700008000000, 1700008000000, 4294967297, 5, 32, 8, 'note 7 of the lighthouse', '', ''),
  (4294967305, 'm8', 'user', '', 1700009000000, 1700009000000, 4294967297, 5, 32, 9, 'note 8 of the lighthouse', '', ''),
  (4294967306, 'm9', 'assistant', '', 1700010000000.0, 1700010000000.0, 4294967297, 0.0, 0.0, 10, '', '', ''),
  (4294967307, 'm10', 'user', '', 1700011000000, 1700011000000, 4294967297, 5, 32, 11, 'note 10 of the lighthouse', '', ''),
  (4294967308, 'm11', 'assistant', '', 1700012000000, 1700012000000, 4294967297, 5, 32, 12, 'note 11 of the lighthouse', '', ''),
  (4294967309, 'b1', 'user', '', 1700013000000, 1700013000000, 4294967297, 4, 0, 13, 'another branch about walrus', '', ''),
  (4294967310, 'b2', 'user', 'ann', 1700014000000.0, 1700014000000.0, 4294967297, 3.0, 0.0, 14, 'which goes on', '', 'Ann'),
  (4294967312, 'root', 'user', '', 1700016000000, 1700016000000, 4294967297, 3, 0, 16, 'a second beginning', '', ''),
  (4294967313, 'c1', 'user', '', 1700017000000, 1700017000000, 4294967297, 5, 0, 17, 'back at the first branch', '', ''),
  (8589934593, '漢字', 'user', '', 1700018000000, 1700018000000, 8589934593, 4, 0, 1, '明天我们讨论部署方案，请带上文档。', '', ''),
  (8589934594, 'nul' || char(0) || ' and 😀', 'user', '', 1700019000000, 1700019000000, 8589934593, 9, 0, 2, 'a lone   surrogate, a  , a   kumquat', 'big: 9223372036854775809
real: 1e+300', ''),
  (8589934595, 'tool', 'assistant', '', 1700020000000, 1700020000000, 8589934593, 0, 0, 3, '', 'search
query: it''s; "quoted"
city: Porto', ''),
  (8589934596, 'picture', 'user', '', 1700021000000, 1700021000000, 8589934593, 0, 0, 4, '', 'zebra.png', ''),
  (8589934597, 'long', 'user', '', 1700022000000, 1700022000000, 8589934593, 100032, 0, 5, 'start ' || replace(hex(zeroblob(100000)), '00', 'filler ') || 'pomegranate', '', ''),
  (8589934598, 'longer', 'user', '', 1700023000000, 1700023000000, 8589934593, 140044, 0, 6, 'begin ' || replace(hex(zeroblob(128569)), '00', 'filler ') || 'filler', '', ''),
  (8589934599, 'longest', 'user', '', 1700024000000, 1700024000000, 8589934593, 230071, 0, 7, 'begin ' || replace(hex(zeroblob(128569)), '00', 'filler ') || 'filler', '', ''),
  (8589934600, 'wide', 'assistant', '', 1700025000000, 1700025000000, 8589934593, 60019, 0, 8, 'quince ' || replace(hex(zeroblob(60000)), '00', 'filler '), 'read
' || replace(hex(zeroblob(60000)), '00', 'filler ') || 'loquat', ''),
  (8589934601, 'empty', 'user', '', 1700026000000.0, 1700026000000.0, 8589934593, 0.0, 0.0, 9, '', '', ''),
  (8589934602, 'last', 'user', '', 1700027000000, 1700027000000, 8589934593, 2, 0, 10, 'the end', '', ''),
  (10737418240, 'longer', 'user', '', 1700023000000, 1700023000000, 0, 140044, 0, 6, ' ' || replace(hex(zeroblob(11430)), '00', 'filler ') || 'persimmon', '', ''),
  (10737418241, 'longest', 'user', '', 1700024000000, 1700024000000, 0, 230071, 0, 7, ' ' || replace(hex(zeroblob(101430)), '00', 'filler ') || 'tamarind', '', ''),
  (12884901890, 'y', 'user', '', 1700029000000, 1700029000000, 12884901890, 4, 0, 2, 'kept of the cleared', '', '');
insert into assistant_search_sittings (doc) values
  (4294967297),
  (8589934593),
  (12884901890);
insert into assistant_fts_grams (rowid, grams) values
  (8589934593, '明 天 我 们 讨 论 部 署 方 案 ǂ 请 带 上 文 档');
insert into assistant_session_numbers (number, session_id, next_seq, edits) values
  (1, '', 1, 9),
  (2, 'others', 1, 1),
  (3, 'cleared', 2, 0);
insert into assistant_messages (session, id, seq, run, role, created_at, tokens, bytes, revision, extra, as_of, path_length, path_tokens, path_bytes, content) values
  (1, 'b1', 13, 13, 'user', 1700013000000, 11, 88, 0, 0, 0, 6, 66, 523, '{"id":"b1","role":"user","parts":[{"type":"text","text":"another branch about walrus"}]}'),
  (1, 'b2', 14, 13, 'user', 1700014000000, 8, 103, 1, 0, 0, 7, 74, 626, '{"id":"b2","role":"user","parts":[{"type":"text","text":"which goes on"}],"metadata":{"speaker":"Ann"}}'),
  (1, 'c1', 17, 17, 'user', 1700017000000, 11, 85, 0, 0, 9, 12, 138, 1170, '{"id":"c1","role":"user","parts":[{"type":"text","text":"back at the first branch"}]}'),
  (1, 'm0', 1, 1, 'user', 1700001000000, 11, 85, 0, 0, 0, 1, 11, 85, '{"id":"m0","role":"user","parts":[{"type":"text","text":"note 0 of the lighthouse"}]}'),
  (1, 'm1', 2, 1, 'assistant', 1700002000000, 11, 90, 0, 0, 0, 2, 22, 175, '{"id":"m1","role":"assistant","parts":[{"type":"text","text":"note 1 of the lighthouse"}]}'),
  (1, 'm10', 11, 1, 'user', 1700011000000, 11, 87, 0, 0, 0, 11, 121, 962, '{"id":"m10","role":"user","parts":[{"type":"text","text":"note 10 of the lighthouse"}]}'),
  (1, 'm11', 12, 1, 'assistant', 1700012000000, 11, 92, 0, 0, 0, 12, 132, 1054, '{"id":"m11","role":"assistant","parts":[{"type":"text","text":"note 11 of the lighthouse"}]}'),
  (1, 'm2', 3, 1, 'user', 1700003000000, 11, 85, 0, 0, 0, 3, 33, 260, '{"id":"m2","role":"user","parts":[{"type":"text","text":"note 2 of the lighthouse"}]}'),
  (1, 'm3', 4, 1, 'assistant', 1700004000000, 16, 113, 2, 0, 0, 4, 49, 373, '{"id":"m3","role":"assistant","parts":[{"type":"text","text":"the edited note says marmalade twice, marmalade"}]}'),
  (1, 'm4', 5, 1, 'user', 1700005000000, 11, 85, 0, 0, 0, 5, 55, 435, '{"id":"m4","role":"user","parts":[{"type":"text","text":"note 4 of the lighthouse"}]}'),
  (1, 'm5', 6, 1, 'assistant', 1700006000000, 11, 90, 0, 0, 0, 6, 66, 525, '{"id":"m5","role":"assistant","parts":[{"type":"text","text":"note 5 of the lighthouse"}]}'),
  (1, 'm7', 8, 1, 'assistant', 1700008000000, 11, 90, 0, 0, 0, 8, 88, 700, '{"id":"m7","role":"assistant","parts":[{"type":"text","text":"note 7 of the lighthouse"}]}'),
  (1, 'm8', 9, 1, 'user', 1700009000000, 11, 85, 0, 0, 0, 9, 99, 785, '{"id":"m8","role":"user","parts":[{"type":"text","text":"note 8 of the lighthouse"}]}'),
  (1, 'm9', 10, 1, 'assistant', 1700010000000, 12, 183, 1, 4, 0, 10, 111, 968, '{"id":"m9","role":"assistant","parts":[{"type":"text","text":"[This message was forgotten.]"}],"metadata":{"forgotten":true,"forgottenAt":1700017000000,"forgottenReason":"asked for"}}'),
  (1, 'root', 16, 16, 'user', 1700016000000, 9, 81, 0, 0, 0, 1, 9, 81, '{"id":"root","role":"user","parts":[{"type":"text","text":"a second beginning"}]}'),
  (2, 'empty', 9, 1, 'user', 1700026000000, 4, 64, 1, 0, 0, 9, 932845, 4143143, '{"id":"empty","role":"user","parts":[{"type":"text","text":""}]}'),
  (2, 'last', 10, 1, 'user', 1700027000000, 7, 70, 0, 0, 1, 10, 932852, 4143213, '{not json'),
  (2, 'long', 5, 1, 'user', 1700022000000, 175014, 700080, 0, 0, 0, 5, 176283, 712749, '{"id":"long","role":"user","parts":[{"type":"text","text":"start ' || replace(hex(zeroblob(100000)), '00', 'filler ') || 'pomegranate"}]}'),
  (2, 'longer', 6, 1, 'user', 1700023000000, 245015, 980080, 0, 0, 0, 6, 421298, 1692829, '{"id":"longer","role":"user","parts":[{"type":"text","text":"begin ' || replace(hex(zeroblob(140000)), '00', 'filler ') || 'persimmon"}]}'),
  (2, 'longest', 7, 1, 'user', 1700024000000, 402520, 1610080, 0, 1, 0, 7, 823818, 3302909, 'null'),
  (2, 'nul' || char(0) || ' and 😀', 2, 1, 'user', 1700019000000, 15, 246, 0, 0, 0, 2, 34, 362, '{"id":"nul\u0000 and \ud83d\ude00","role":"user","parts":[{"type":"text","text":"a lone \ud800 surrogate, a \u0000, a \u2028 kumquat"},{"type":"data-number","data":{"big":9223372036854775809,"real":1e+300}}],"extra":{"unknown":[null,true,"",{}]}}'),
  (2, 'picture', 4, 1, 'user', 1700021000000, 1204, 12134, 0, 2, 0, 4, 1269, 12669, '{"id":"picture","role":"user","parts":[{"type":"file","mediaType":"image/png","url":"palimpsest:media","filename":"zebra.png"}]}'),
  (2, 'tool', 3, 1, 'assistant', 1700020000000, 31, 173, 0, 0, 0, 3, 65, 535, '{"id":"tool","role":"assistant","parts":[{"type":"tool-search","toolCallId":"t1","state":"output-available","input":{"query":"it''s; \"quoted\""},"output":{"city":"Porto"}}]}'),
  (2, 'wide', 8, 1, 'assistant', 1700025000000, 109023, 840170, 0, 0, 0, 8, 932841, 4143079, '{"id":"wide","role":"assistant","parts":[{"type":"text","text":"quince ' || replace(hex(zeroblob(60000)), '00', 'filler ') || '"},{"type":"tool-read","toolCallId":"t2","state":"output-available","input":{},"output":"' || replace(hex(zeroblob(60000)), '00', 'filler ') || 'loquat"}]}'),
  (2, '漢字', 1, 1, 'user', 1700018000000, 19, 116, 0, 0, 0, 1, 19, 116, '{"id":"漢字","role":"user","parts":[{"type":"text","text":"明天我们讨论部署方案，请带上文档。"}]}'),
  (3, 'y', 2, 2, 'user', 1700029000000, 10, 79, 0, 0, 0, 1, 10, 79, '{"id":"y","role":"user","parts":[{"type":"text","text":"kept of the cleared"}]}');
insert into assistant_runs (session, run, parent_run, parent_seq) values
  (1, 1, null, null),
  (1, 16, null, null),
  (1, 13, 1, 5),
  (1, 17, 1, 12),
  (2, 1, null, null),
  (3, 2, null, null);
insert into assistant_shifts (session, number, run, seq, length, tokens, bytes) values
  (1, 1, 1, 4, 0, 1, 6),
  (1, 2, 1, 4, 0, 4, 17),
  (1, 3, 13, 14, 0, 0, 29),
  (1, 4, 1, 7, -1, -11, -85),
  (1, 5, 13, 15, -1, -7, -67),
  (1, 9, 1, 10, 0, 1, 93),
  (2, 1, 1, 9, 0, 0, 25);
insert into assistant_message_pieces (key, place, content) values
  (8589934599, 0, '{"id":"longest","role":"user","parts":[{"type":"text","text":"begin ' || replace(hex(zeroblob(214276)), '00', 'filler ')),
  (8589934599, 1, replace(hex(zeroblob(15724)), '00', 'filler ') || 'tamarind"}]}');
insert into assistant_media (hash, place, data) values
  ('1631d7a5072e5527ca677bb4035bb86ab97976a30514b268e9b0bd91ac7100ee', 0, zeroblob(9000));
insert into assistant_media_refs (key, pointer, header, hash) values
  (8589934596, '["parts", 0, "url"]', 'data:image/png;base64', '1631d7a5072e5527ca677bb4035bb86ab97976a30514b268e9b0bd91ac7100ee');
insert into assistant_compactions (key, session, id, from_seq, from_run, to_seq, to_run, from_id, to_id, created_at, tokens, stale, covered_by, summary) values
  (4294967297, 1, 'overlay-1', 2, 1, 6, 1, 'm1', 'm5', 1700017000000, 11, 0, null, 'the notes one to five'),
  (4294967298, 1, 'overlay-2', 9, 1, 10, 1, 'm8', 'm9', 1700017000000, 0, 1, null, '');
