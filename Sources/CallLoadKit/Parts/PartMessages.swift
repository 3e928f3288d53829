import FoundationEssentials

/// What the process of a run asks of a process of devices.
struct PartOrder: Codable, Sendable {
  /// Chosen by the sender; the answer repeats it.
  var id: Int
  var what: What

  enum What: Codable, Sendable {
    /// The first order.
    case begin(PartOrders)
    case connect
    case load(calls: Int, seconds: Double)
    case note(FaultStep)
    case stop
    case disconnect
  }
}

/// What a process of devices answers.
enum PartReport: Codable, Sendable {
  /// Unasked, several times a second.
  case progress(LoadProgress.Snapshot)
  case done(order: Int)
  case result(order: Int, RunResult)
  case failed(order: Int, String)

  static let bytesMax = 64 << 20
}

/// What a process of devices needs to know beside the command line, which is that of the run.
struct PartOrders: Codable, Sendable {
  var part: LoadPart
  var target: LoadTarget
}

/// The edges under load, and what devices need to connect to them.
struct LoadTarget: Codable, Sendable {
  var edges: [String]
  var app: String
  var keysPath: String
  /// Of the authority that devices trust; nil: the machine's.
  var caFile: String?
  var seed: UInt64
  /// Of a local cluster that faults are injected into; nil without faults.
  var shardCount: Int?
}

extension PartOrder {
  init(json: Data) throws { self = try JSONDecoder().decode(Self.self, from: json) }
}
