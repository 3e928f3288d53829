internal import CallCore
internal import CallWire

/// The object under `callmesh`: the whole payload of Callmesh's own dialect, and a part of the others'.
struct CallmeshNote: Equatable {
  var purpose: PushPurpose
  var call: CallID
  var callee: String
  var caller: Party
  var video: Bool
  var placedAt: Timestamp?
  var sentAt: Timestamp
  var deadline: Timestamp
  var capability: String?
  var reason: EndReason?
  var by: Party?
  var headers: [CustomHeader]
  var pushData: String
  var unread: UInt32?

  static let version: Int64 = 1

  /// Returns nil if the payload has no such object. FCM's map holds it as JSON text.
  init?(in payload: PayloadValue) throws(PushReadError) {
    guard let value = payload["callmesh"] else { return nil }
    var note = value
    if let text = value.text {
      guard let parsed = PayloadValue(json: Array(text.utf8)) else { throw .invalid("callmesh") }
      note = parsed
    }
    guard case .object = note else { throw .invalid("callmesh") }
    try self.init(note)
  }

  private init(_ note: PayloadValue) throws(PushReadError) {
    guard let value = note["v"] else { throw .missing("callmesh.v") }
    guard let version = value.wholeNumber, version > 0 else { throw .invalid("callmesh.v") }
    guard version == Self.version else { throw .laterVersion(version) }

    let purpose = try Self.text("purpose", note)
    guard let purpose = PushPurpose.allCases.first(where: { $0.name == purpose }) else {
      throw .invalid("callmesh.purpose")
    }
    self.purpose = purpose
    guard let call = CallID(try Self.text("call", note)) else { throw .invalid("callmesh.call") }
    self.call = call
    callee = try Self.text("callee", note)
    caller = try Self.party("caller", note).required("caller")
    video = try Self.flag("video", note)
    placedAt = try Self.time("placedAtMs", note)
    sentAt = try Self.time("sentAtMs", note).required("sentAtMs")
    deadline = try Self.time("deadlineMs", note).required("deadlineMs")
    capability = note["capability"] == nil ? nil : try Self.text("capability", note)
    reason = try Self.reason(note)
    by = try Self.party("by", note)
    headers = try Self.headers(note)
    pushData = note["pushData"] == nil ? "" : try Self.text("pushData", note)
    unread = try Self.count("unread", note)
  }

  /// Whether this is one of the alert pushes, which are the same in every dialect.
  var isAlert: Bool { purpose == .ended || purpose == .missedNotice }

  var news: PushNews {
    switch purpose {
    case .ring: return .invite(PushInvite(call: call, handle: caller.user, note: self))
    case .missed: return .stop(PushStop(call: call, .missed, note: self, orElse: 3))
    case .answeredElsewhere:
      return .stop(PushStop(call: call, .answeredElsewhere, note: self, orElse: 4))
    case .cancel: return .stop(PushStop(call: call, .cancel, note: self, orElse: 2))
    case .ended:
      var stop = PushStop(call: call, .ended, note: self, orElse: 2)
      stop.mustReportCall = false
      return .stop(stop)
    case .missedNotice:
      return .missed(
        MissedCallNotice(
          call: call, callee: callee, handle: caller.user, caller: caller, video: video,
          placedAt: placedAt, sentAt: sentAt, reason: reason, unread: unread))
    }
  }

  // MARK: Members

  private static func text(_ name: String, _ note: PayloadValue) throws(PushReadError) -> String {
    let text = try Member.text(name, in: note, as: "callmesh." + name)
    guard !text.isEmpty else { throw .invalid("callmesh." + name) }
    return text
  }

  private static func flag(_ name: String, _ note: PayloadValue) throws(PushReadError) -> Bool {
    guard let value = note[name] else { return false }
    guard let flag = value.flag else { throw .invalid("callmesh." + name) }
    return flag
  }

  /// Up to the year 9999.
  private static let latestMilliseconds: Int64 = 253_402_300_800_000

  private static func time(
    _ name: String, _ note: PayloadValue
  ) throws(PushReadError) -> Timestamp? {
    guard let value = note[name] else { return nil }
    guard let milliseconds = value.wholeNumber, (0..<latestMilliseconds).contains(milliseconds)
    else { throw .invalid("callmesh." + name) }
    return Timestamp(microseconds: milliseconds * 1000)
  }

  private static func count(_ name: String, _ note: PayloadValue) throws(PushReadError) -> UInt32? {
    guard let value = note[name] else { return nil }
    guard let number = value.wholeNumber, let count = UInt32(exactly: number) else {
      throw .invalid("callmesh." + name)
    }
    return count
  }

  /// The reason; nil also for one that only later versions know.
  private static func reason(_ note: PayloadValue) throws(PushReadError) -> EndReason? {
    guard note["reason"] != nil else { return nil }
    let name = try text("reason", note)
    return EndReason.allCases.first { $0.name == name }
  }

  private static func party(_ name: String, _ note: PayloadValue) throws(PushReadError) -> Party? {
    guard let value = note[name] else { return nil }
    guard case .object = value, let user = value["user"]?.text, !user.isEmpty else {
      throw .invalid("callmesh." + name)
    }
    var party = Party(user: user, device: "")
    if let device = value["device"] {
      guard let text = device.text else { throw .invalid("callmesh.\(name).device") }
      party.device = DeviceID(text)
    }
    if let deviceName = value["deviceName"] {
      guard let text = deviceName.text else { throw .invalid("callmesh.\(name).deviceName") }
      party.deviceName = text
    }
    if let shown = value["name"] {
      guard let text = shown.text else { throw .invalid("callmesh.\(name).name") }
      party.name = text
    }
    return party
  }

  private static func headers(_ note: PayloadValue) throws(PushReadError) -> [CustomHeader] {
    guard let value = note["headers"] else { return [] }
    guard case .list(let list) = value else { throw .invalid("callmesh.headers") }
    var headers: [CustomHeader] = []
    for element in list {
      guard let name = element["name"]?.text, let value = element["value"]?.text else {
        throw .invalid("callmesh.headers")
      }
      headers.append(CustomHeader(name: name, value: value))
    }
    return headers
  }
}

extension Optional {
  /// - Throws: `missing`.
  fileprivate func required(_ name: String) throws(PushReadError) -> Wrapped {
    guard let self else { throw .missing("callmesh." + name) }
    return self
  }
}
