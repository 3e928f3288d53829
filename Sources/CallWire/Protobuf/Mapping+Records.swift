internal import CCallProto
internal import CallCore

// Records of ended calls (records.proto).

extension Callmesh__V1__CallRecords: Root {
  static var blank: CallRecordBatch { CallRecordBatch(records: []) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__call_records__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    value.unreadable += try c.known(&value.records, &m.n_records, &m.records)
  }
}

extension Callmesh__V1__CallRecord: Mapping {
  static var blank: CallRecord {
    CallRecord(
      call: .zero, callee: .blank, caller: Callmesh__V1__Party.blank, placedAt: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__call_record__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.user(&value.callee, &m.app, &m.callee)
    try c.message(&value.caller, &m.caller, "caller")
    c.flag(&value.video, &m.video)
    c.time(&value.placedAt, microseconds: &m.placed_at_us)
    try answer(c, &value.answer, &m)
    try end(c, &value.end, &m)
    try c.array(&value.legs, &m.n_legs, &m.legs)
    var dropped = UInt32(clamping: value.eventsDropped)
    c.number(&dropped, &m.events_dropped)
    if C.reads { value.eventsDropped = Int(dropped) }
    value.eventsDropped += try c.known(&value.events, &m.n_events, &m.events)
    _ = try c.known(&value.diversions, &m.n_diversions, &m.diversions)
  }

  private static func answer<C: Coder>(
    _ c: C, _ value: inout CallRecord.Answer?, _ m: inout Self
  ) throws(C.Failure) {
    var (by, at, merged) = (value?.by, value?.at, value?.merged)
    try c.optional(&by, &m.answered_by)
    c.time(&at, microseconds: &m.answered_at_us)
    try c.optionalID(&merged, &m.merged, "merged")
    if C.reads { value = by.map { CallRecord.Answer(by: $0, at: at ?? .zero, merged: merged) } }
  }

  private static func end<C: Coder>(
    _ c: C, _ value: inout EndedFacts?, _ m: inout Self
  ) throws(C.Failure) {
    var end = value ?? EndedFacts(reason: .failed, by: nil, at: .zero, missed: false)
    var reason = value?.reason
    try c.known(&reason, &m.reason, "reason")
    try c.optional(&end.by, &m.by)
    c.time(&end.at, microseconds: &m.ended_at_us)
    c.flag(&end.missed, &m.missed)
    c.flag(&end.byApp, &m.ended_by_app)
    try c.known(&end.unreachable, &m.unreachable, "unreachable")
    try c.optionalID(&end.survivor, &m.survivor, "survivor")
    guard C.reads else { return }
    if let reason { end.reason = reason }
    value = reason == nil ? nil : end
  }
}

extension Callmesh__V1__Diversion: Mapping {
  static var blank: CallRecord.Diversion {
    CallRecord.Diversion(from: "", to: [], reason: .always, at: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__diversion__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.from, &m.from, "from")
    try c.texts(&value.to, &m.n_to, &m.to, "to")
    try c.known(&value.reason, &m.reason, "reason")
    try c.optional(&value.by, &m.by)
    c.time(&value.at, microseconds: &m.at_us)
    try c.optional(&value.takenBy, &m.taken_by)
    try c.known(&value.failed, &m.failed, "failed")
  }
}

extension Callmesh__V1__LegRecord: Mapping {
  static var blank: CallRecord.Leg {
    CallRecord.Leg(party: Callmesh__V1__Party.blank, fate: .stopped)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__leg_record__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value.party, &m.device, "device")
    try c.known(&value.fate, &m.fate, "fate")
    c.time(&value.pushedAt, microseconds: &m.pushed_at_us)
    c.time(&value.invitedAt, microseconds: &m.invited_at_us)
    c.time(&value.deliveredAt, microseconds: &m.delivered_at_us)
    c.time(&value.alertedAt, microseconds: &m.alerted_at_us)
    c.time(&value.endedAt, microseconds: &m.ended_at_us)
  }
}

extension Callmesh__V1__CallEvent: Mapping {
  static var blank: CallRecord.Event { CallRecord.Event(.placed, offset: 0, who: .call) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__call_event__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.known(&value.kind, &m.kind, "kind")
    c.number(&value.offset, &m.after_us)
    try c.known(&value.purpose, &m.purpose, "purpose")
    try c.text(&value.reason, &m.reason, "reason")
    var (leg, isCaller, device) = (UInt32(0), false, DeviceID?.none)
    switch value.who {
    case .call: break
    case .caller: isCaller = true
    case .leg(let index): leg = UInt32(clamping: index + 1)
    case .device(let id): device = id
    }
    c.number(&leg, &m.leg)
    c.flag(&isCaller, &m.caller)
    try c.device(&device, &m.device)
    guard C.reads else { return }
    value.who =
      if isCaller { .caller } else if leg > 0 { .leg(Int(leg - 1)) } else {
        device.map { .device($0) } ?? .call
      }
  }
}
