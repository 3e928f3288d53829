internal import CallCore

// Shapes of the JSON that comes in, one per message. Every field may be absent; each shape turns
// itself into the value that it stands for, and says which field is wrong.

struct CallRefJSON: Decodable {
  var callee: String?
  var id: String?

  func address() throws(Fault) -> CallAddress {
    guard let id else { throw .missing("call.id") }
    return CallAddress(callee: callee ?? "", call: try CallID(json: id, "call.id"))
  }
}

/// Messages that name a call and nothing else.
struct BareJSON: Decodable {
  var call: CallRefJSON?

  func address() throws(Fault) -> CallAddress { try CallRefJSON.there(call) }
}

extension CallRefJSON {
  static func there(_ call: CallRefJSON?) throws(Fault) -> CallAddress {
    guard let call else { throw .missing("call") }
    return try call.address()
  }
}

struct HeaderJSON: Decodable {
  var name: String?
  var value: String?

  static func headers(_ headers: [HeaderJSON]?) -> [CustomHeader] {
    (headers ?? []).map { CustomHeader(name: $0.name ?? "", value: $0.value ?? "") }
  }
}

struct PartyJSON: Decodable {
  var user: String?
  var device: String?
  var deviceName: String?

  var party: Party {
    Party(user: user ?? "", device: DeviceID(device ?? ""), deviceName: deviceName ?? "")
  }

  static func there(_ party: PartyJSON?, _ field: String) throws(Fault) -> Party {
    guard let party else { throw .missing(field) }
    return party.party
  }
}

struct SignalJSON: Decodable {
  var index: UInt64?
  var kind: String?
  var body: String?

  func signal() throws(Fault) -> Signal {
    Signal(
      index: index ?? 0, kind: try SignalKind(json: kind, "kind", absent: .candidate),
      body: body ?? "")
  }

  static func signals(_ signals: [SignalJSON]?) throws(Fault) -> [Signal] {
    var values: [Signal] = []
    for signal in signals ?? [] { values.append(try signal.signal()) }
    return values
  }
}

struct PushTokenJSON: Decodable {
  var provider: String?
  var environment: String?
  var topic: String?
  var token: String?

  func token(_ field: String) throws(Fault) -> PushToken? {
    let value = PushToken(
      provider: try PushProvider(json: provider, "\(field).provider", absent: PushProvider.none),
      environment: environment ?? "", topic: topic ?? "", token: token ?? "")
    return value.isEmpty ? nil : value
  }
}

struct RegisterJSON: Decodable {
  /// Of the HTTP body only; a frame's device is the session's.
  var device: String?
  var deviceName: String?
  var voipToken: PushTokenJSON?
  var alertToken: PushTokenJSON?
  var dialect: String?
  var sdkName: String?
  var sdkVersion: String?

  func request() throws(Fault) -> RegistrationRequest {
    RegistrationRequest(
      deviceName: deviceName ?? "", voipToken: try voipToken?.token("voipToken"),
      alertToken: try alertToken?.token("alertToken"), dialect: dialect ?? "",
      sdkName: sdkName ?? "", sdkVersion: sdkVersion ?? "")
  }
}

struct CallStateJSON: Decodable {
  var call: CallRefJSON?
  var phase: String?
  var version: UInt64?
  var reason: String?
  var by: PartyJSON?
  var atMs: Int64?
  var deadlineMs: Int64?
  var missed: Bool?

  func state() throws(Fault) -> CallState {
    let address = try CallRefJSON.there(call)
    return CallState(
      call: address.call, callee: address.callee,
      phase: try CallPhase(json: phase, "phase", absent: .unknown), version: version ?? 0,
      reason: reason == nil ? nil : try EndReason(json: reason, "reason", absent: .failed),
      by: by?.party, at: Unpacker.time(milliseconds: atMs ?? 0),
      deadline: deadlineMs.flatMap { $0 == 0 ? nil : Unpacker.time(milliseconds: $0) },
      missed: missed ?? false)
  }
}

// MARK: Ids and enums as text

extension CallID {
  init(json text: String, _ field: String) throws(Fault) {
    guard let id = CallID(text) else { throw .field(field) }
    self = id
  }
}

/// An enum whose cases have names on the wire.
protocol NamedOnWire: CaseIterable {
  var name: String { get }
}

extension NamedOnWire {
  init(json text: String?, _ field: String, absent: Self) throws(Fault) {
    guard let text else {
      self = absent
      return
    }
    guard let known = Self.allCases.first(where: { $0.name == text }) else { throw .field(field) }
    self = known
  }
}

extension SignalKind: NamedOnWire {}
extension DeclineScope: NamedOnWire {}
extension PushProvider: NamedOnWire {}
extension EndReason: NamedOnWire {}
extension CallPhase: NamedOnWire {}
extension Notice.Kind: NamedOnWire {}
