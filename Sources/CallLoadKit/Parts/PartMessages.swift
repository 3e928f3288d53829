import FoundationEssentials

/// An order of the process of a run to a process of devices.
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

/// A report of a process of devices to the process of the run.
enum PartReport: Codable, Sendable {
  /// Unasked, several times a second.
  case progress(LoadProgress.Snapshot)
  case done(order: Int)
  case result(order: Int, RunResult)
  case failed(order: Int, String)

  static let bytesMax = 64 << 20
}

/// The facts that a process of devices needs beside the command line, which is that of the run.
struct PartOrders: Codable, Sendable {
  var part: LoadPart
  var target: LoadTarget
}

/// The edges under load, and what devices need to connect to them.
struct LoadTarget: Codable, Sendable {
  var edges: [String]
  var app: String
  var keysPath: String
  /// The file of the authority that devices trust; nil: the machine's.
  var caFile: String?
  var seed: UInt64
  /// The number of shards of a local cluster that faults are injected into; nil without faults.
  var shardCount: Int?
}

extension PartOrder {
  init(json: Data) throws { self = try JSONDecoder().decode(Self.self, from: json) }
}
