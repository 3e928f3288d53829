internal import CCallProto
internal import CallCore

// Histories of users, in messages of devices, of nodes and of the store.

extension Coder {
  /// Empty is the start.
  @safe
  func cursor(_ value: inout HistoryCursor, _ field: inout CText?, _ name: StaticString)
    throws(Failure)
  {
    var some: HistoryCursor? = value
    try cursor(&some, &field, name)
    if Self.reads { value = some ?? .start }
  }

  /// nil is empty.
  @safe
  func cursor(_ value: inout HistoryCursor?, _ field: inout CText?, _ name: StaticString)
    throws(Failure)
  {
    var text = value?.text ?? ""
    try self.text(&text, &field, name)
    guard Self.reads else { return }
    value = text.isEmpty ? nil : HistoryCursor(text: text)
    if !text.isEmpty, value == nil { throw failure(.field(String(describing: name))) }
  }
}

extension Callmesh__V1__HistoryQuery: Mapping {
  static var blank: HistoryCommand { .list(before: nil, limit: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__history_query__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    guard case .list(var before, var limit) = value else { return }
    try c.cursor(&before, &m.before, "history.before")
    c.number(&limit, &m.limit)
    if C.reads { value = .list(before: before, limit: limit) }
  }
}

extension Callmesh__V1__HistoryRead: Mapping {
  static var blank: HistoryCommand { .markRead(upTo: .start) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__history_read__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    guard case .markRead(let upTo) = value else { return }
    var cursor: HistoryCursor? = C.reads ? nil : upTo
    try c.cursor(&cursor, &m.up_to, "historyRead.upTo")
    guard C.reads else { return }
    guard let cursor else { throw c.failure(.missing("historyRead.upTo")) }
    value = .markRead(upTo: cursor)
  }
}

extension Callmesh__V1__HistoryState: Mapping {
  static var blank: HistoryState { HistoryState() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__history_state__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.cursor(&value.cursor, &m.cursor, "history.cursor")
    c.number(&value.unread, &m.unread)
  }
}

extension Callmesh__V1__HistoryPage: Mapping {
  static var blank: HistoryPage { HistoryPage() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__history_page__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.array(&value.items, &m.n_entries, &m.entries)
    try c.cursor(&value.next, &m.next, "history.next")
    try c.cursor(&value.state.cursor, &m.cursor, "history.cursor")
    c.number(&value.state.unread, &m.unread)
    var readUpTo: HistoryCursor? = value.readUpTo == .start ? nil : value.readUpTo
    try c.cursor(&readUpTo, &m.read_up_to, "history.readUpTo")
    if C.reads { value.readUpTo = readUpTo ?? .start }
  }
}

extension Callmesh__V1__HistoryEntry: Mapping {
  static var blank: HistoryPage.Item {
    HistoryPage.Item(
      cursor: .start,
      entry: HistoryEntry(
        call: .zero, callee: "", isPlaced: false, peer: "", placedAt: .zero, endedAt: .zero,
        reason: .failed))
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__history_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    // In the store the message's number is its cursor.
    var cursor: HistoryCursor? = value.cursor == .start ? nil : value.cursor
    try c.cursor(&cursor, &m.cursor, "history.cursor")
    if C.reads { value.cursor = cursor ?? .start }
    try c.address(&value.entry.callee, &value.entry.call, &m.call)
    c.flag(&value.entry.isPlaced, &m.placed)
    try c.text(&value.entry.peer, &m.user, "history.user")
    try c.text(&value.entry.peerName, &m.name, "history.name")
    try c.device(&value.entry.device, &m.device)
    try c.text(&value.entry.deviceName, &m.device_name, "history.deviceName")
    c.time(&value.entry.placedAt, milliseconds: &m.placed_ms)
    c.time(&value.entry.answeredAt, milliseconds: &m.answered_ms)
    c.time(&value.entry.endedAt, milliseconds: &m.ended_ms)
    try c.known(&value.entry.reason, &m.reason, "history.reason")
    c.flag(&value.entry.isMissed, &m.missed)
    c.flag(&value.entry.video, &m.video)
    try c.text(&value.entry.divertedBy, &m.diverted_by, "history.divertedBy")
    c.flag(&value.entry.wentOn, &m.went_on)
    try c.text(&value.entry.answeredBy, &m.answered_by, "history.answeredBy")
    try c.texts(&value.entry.wentTo, &m.n_went_to, &m.went_to, "history.wentTo")
  }
}

extension Callmesh__V1__HistoryMark: Mapping {
  static var blank: HistoryMark { HistoryMark() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__history_mark__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    var shown = value.shown.map { $0.sequence &+ 1 } ?? 0
    c.number(&shown, &m.shown)
    if C.reads { value.shown = shown == 0 ? nil : HistoryCursor(shown - 1) }
  }
}

extension Callmesh__V1__HistoryCommand: Mapping {
  static var blank: HistoryCommand { .changed }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__history_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    guard C.reads else {
      switch value {
      case .list(let before, let limit):
        m.kind = CALLMESH__V1__HISTORY_KIND__HISTORY_KIND_LIST
        (m.cursor, m.limit) = (before?.sequence ?? 0, limit)
      case .markRead(let cursor):
        m.kind = CALLMESH__V1__HISTORY_KIND__HISTORY_KIND_MARK_READ
        m.cursor = cursor.sequence
      case .changed: m.kind = CALLMESH__V1__HISTORY_KIND__HISTORY_KIND_CHANGED
      }
      return
    }
    switch m.kind {
    case CALLMESH__V1__HISTORY_KIND__HISTORY_KIND_LIST:
      value = .list(before: m.cursor == 0 ? nil : HistoryCursor(m.cursor), limit: m.limit)
    case CALLMESH__V1__HISTORY_KIND__HISTORY_KIND_MARK_READ:
      value = .markRead(upTo: HistoryCursor(m.cursor))
    case CALLMESH__V1__HISTORY_KIND__HISTORY_KIND_CHANGED: value = .changed
    default: throw c.failure(.field("history.kind"))
    }
  }
}

extension Callmesh__V1__HistoryRecord: Root {
  static var blank: HistoryMessage { .read(upTo: .start) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__history_record__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    var (item, upTo): (HistoryPage.Item?, UInt64) = (nil, 0)
    switch value {
    case .entry(let entry): item = HistoryPage.Item(cursor: .start, entry: entry)
    case .read(let cursor): upTo = cursor.sequence
    }
    try c.optional(&item, &m.entry)
    c.number(&upTo, &m.read_up_to)
    if C.reads { value = item.map { .entry($0.entry) } ?? .read(upTo: HistoryCursor(upTo)) }
  }
}
