internal import CallCore

/// Reads values out of JSON: the counterpart of `JSONForm`. Fields that are absent or null are
/// empty, 0 or false; fields that nobody knows are skipped.
enum JSONParse {
  /// Reads the one value that `bytes` hold.
  @inline(__always)
  static func whole<Value>(
    _ bytes: UnsafeRawBufferPointer, _ read: (inout JSONCursor) throws(Fault) -> Value
  ) throws(Fault) -> Value {
    var json = JSONCursor(bytes)
    let value = try read(&json)
    try json.end()
    return value
  }

  static func optionalID(
    _ json: inout JSONCursor, _ field: StaticString
  ) throws(Fault) -> CallID? {
    let text = try json.text(field)
    if text.isEmpty { return nil }
    guard let id = CallID(text) else { throw .field(String(describing: field)) }
    return id
  }

  static func address(_ json: inout JSONCursor) throws(Fault) -> CallAddress {
    var callee = ""
    var call: CallID?
    try json.object("call") { (json, key) throws(Fault) in
      switch key {
      case "callee": callee = try json.text("call.callee")
      case "id": call = try optionalID(&json, "call.id")
      default: try json.skip()
      }
    }
    return CallAddress(callee: callee, call: try there(call, "call.id"))
  }

  static func there<Value>(_ value: Value?, _ field: StaticString) throws(Fault) -> Value {
    guard let value else { throw .missing(String(describing: field)) }
    return value
  }

  static func party(_ json: inout JSONCursor, _ field: StaticString) throws(Fault) -> Party {
    var party = Party(user: "", device: "")
    try json.object(field) { (json, key) throws(Fault) in
      switch key {
      case "user": party.user = try json.text(field)
      case "device": party.device = DeviceID(try json.text(field))
      case "deviceName": party.deviceName = try json.text(field)
      default: try json.skip()
      }
    }
    return party
  }

  static func headers(_ json: inout JSONCursor) throws(Fault) -> [CustomHeader] {
    var headers: [CustomHeader] = []
    try json.array("headers") { (json) throws(Fault) in
      var header = CustomHeader(name: "", value: "")
      try json.object("headers") { (json, key) throws(Fault) in
        switch key {
        case "name": header.name = try json.text("headers.name")
        case "value": header.value = try json.text("headers.value")
        default: try json.skip()
        }
      }
      headers.append(header)
    }
    return headers
  }

  static func signal(_ json: inout JSONCursor) throws(Fault) -> Signal {
    var signal = Signal(index: 0, kind: .candidate, body: "")
    try json.object("signal") { (json, key) throws(Fault) in
      switch key {
      case "index": signal.index = try json.number("index")
      case "kind": signal.kind = try named(&json, "kind")
      case "body": signal.body = try json.text("body")
      default: try json.skip()
      }
    }
    return signal
  }

  static func signals(_ json: inout JSONCursor) throws(Fault) -> [Signal] {
    var signals: [Signal] = []
    try json.array("signals") { (json) throws(Fault) in signals.append(try signal(&json)) }
    return signals
  }

  static func time(_ json: inout JSONCursor, _ field: StaticString) throws(Fault) -> Timestamp {
    Unpacker.time(milliseconds: try json.number(field))
  }

  /// An enum's case by its name on the wire.
  static func named<Value: NamedOnWire>(
    _ json: inout JSONCursor, _ field: StaticString
  ) throws(Fault) -> Value {
    let name = try json.text(field)
    for value in Value.allCases where value.name == name { return value }
    throw .field(String(describing: field))
  }
}

/// An enum whose cases have names on the wire.
protocol NamedOnWire: CaseIterable {
  var name: String { get }
}

extension SignalKind: NamedOnWire {}
extension DeclineScope: NamedOnWire {}
extension PushProvider: NamedOnWire {}
extension EndReason: NamedOnWire {}
extension CallPhase: NamedOnWire {}
