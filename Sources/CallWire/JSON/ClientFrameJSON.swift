internal import CallCore

/// What devices say. `FrameRules` checks sizes and contents afterwards, for both encodings.
struct ClientFrameJSON: Decodable {
  enum Key: String, CodingKey {
    case id, attach, detach, register, unregister, place, ack, alerting, answer, decline, busy,
      cancel, connected, hangUp, description, candidate, resume, query
  }

  var frame: ClientFrame

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: Key.self)
    var id: UInt64 = 0
    var command: ClientCommand?
    for key in container.allKeys where try !container.decodeNil(forKey: key) {
      if key == .id {
        id = try container.decode(UInt64.self, forKey: .id)
      } else {
        guard command == nil else { throw Fault.unknownMember("one command of the frame") }
        command = try Self.command(key, container)
      }
    }
    guard let command else { throw Fault.unknownMember("command") }
    frame = ClientFrame(id: id, command: command)
  }

  private static func command(
    _ key: Key, _ container: KeyedDecodingContainer<Key>
  ) throws -> ClientCommand {
    func bare() throws -> CallAddress {
      try container.decode(BareJSON.self, forKey: key).address()
    }
    switch key {
    case .id: throw Fault.unknownMember("command")  // Not a command; never asked for.
    case .attach: return try container.decode(AttachJSON.self, forKey: key).command()
    case .detach:
      _ = try container.decode(EmptyJSON.self, forKey: key)
      return .detach
    case .register: return .register(try container.decode(RegisterJSON.self, forKey: key).request())
    case .unregister:
      let device = try container.decode(UnregisterJSON.self, forKey: key).device ?? ""
      return .unregister(device.isEmpty ? nil : DeviceID(device))
    case .place: return try container.decode(PlaceJSON.self, forKey: key).command()
    case .ack: return try container.decode(AckJSON.self, forKey: key).command()
    case .answer: return try container.decode(AnswerJSON.self, forKey: key).command()
    case .decline: return try container.decode(DeclineJSON.self, forKey: key).command()
    case .description:
      return try container.decode(SignalCommandJSON.self, forKey: key).command(.description)
    case .candidate:
      return try container.decode(SignalCommandJSON.self, forKey: key).command(.candidate)
    case .alerting: return .alerting(try bare())
    case .busy: return .busy(try bare())
    case .cancel: return .cancel(try bare())
    case .connected: return .connected(try bare())
    case .hangUp: return .hangUp(try bare())
    case .resume: return .resume(try bare())
    case .query: return .query(try bare())
    }
  }
}

/// Only the number of a frame, for the reply to one that could not be read.
struct FrameIDJSON: Decodable { var id: UInt64? }

struct EmptyJSON: Decodable {}

struct AttachJSON: Decodable {
  var token: String?
  var device: String?
  var forCall: String?
  var deviceName: String?
  var client: String?

  func command() throws(Fault) -> ClientCommand {
    let call = forCall ?? ""
    return .attach(
      AttachRequest(
        token: token ?? "", device: device ?? "",
        forCall: call.isEmpty ? nil : try CallID(json: call, "attach.forCall"),
        deviceName: deviceName ?? "", client: client ?? ""))
  }
}

struct UnregisterJSON: Decodable { var device: String? }

struct PlaceJSON: Decodable {
  var call: CallRefJSON?
  var ringTimeoutSeconds: UInt32?
  var description: String?
  var headers: [HeaderJSON]?
  var video: Bool?

  func command() throws(Fault) -> ClientCommand {
    let address = try CallRefJSON.there(call)
    return .place(
      address,
      PlaceRequest(
        call: address.call, ringTimeoutSeconds: ringTimeoutSeconds ?? 0,
        description: description ?? "", headers: HeaderJSON.headers(headers),
        video: video ?? false))
  }
}

struct AckJSON: Decodable {
  struct Item: Decodable {
    var call: CallRefJSON?
    var version: UInt64?
  }
  var items: [Item]?

  func command() throws(Fault) -> ClientCommand {
    var values: [AckItem] = []
    for item in items ?? [] {
      values.append(
        AckItem(call: try CallRefJSON.there(item.call), version: item.version ?? 0))
    }
    return .ack(values)
  }
}

struct AnswerJSON: Decodable {
  var call: CallRefJSON?
  var description: String?

  func command() throws(Fault) -> ClientCommand {
    .answer(try CallRefJSON.there(call), description: description ?? "")
  }
}

struct DeclineJSON: Decodable {
  var call: CallRefJSON?
  var scope: String?

  func command() throws(Fault) -> ClientCommand {
    .decline(
      try CallRefJSON.there(call), try DeclineScope(json: scope, "scope", absent: .everywhere))
  }
}

struct SignalCommandJSON: Decodable {
  var call: CallRefJSON?
  var body: String?

  func command(_ kind: SignalKind) throws(Fault) -> ClientCommand {
    .signal(try CallRefJSON.there(call), kind, body: body ?? "")
  }
}
