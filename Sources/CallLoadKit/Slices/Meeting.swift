import CallProcesses
import FoundationEssentials
import Glibc

/// Where the slices of a run on one machine find the cluster that the first of them starts, and wait for each other:
/// files in a folder.
package struct Meeting: Sendable {
  /// A point that no slice passes before all have come to it.
  package enum Point: String, Sendable {
    /// No device has connected yet.
    case begun
    /// All devices are connected and registered.
    case connected
    /// All calls are over and judged; the cluster may stop.
    case over
  }

  /// The facts that the other slices need to connect.
  struct Cluster: Codable, Sendable {
    var edges: [String]
    var app: String
    var keysPath: String
    /// The file of the authority that devices trust; nil: the machine's.
    var caFile: String?
  }

  private static let clusterFile = "cluster.json"
  private let folder: String
  private let slice: LoadSlice

  package init(folder: String, slice: LoadSlice) {
    self.folder = folder
    self.slice = slice
  }

  /// - Throws: ``SetupError`` where the folder cannot be written, or was used by an earlier run.
  package func wait(at point: Point, isWanted: () -> Bool) async throws {
    try write(Data(), to: name(point, slice.number))
    while isWanted(), !(1...slice.count).allSatisfy({ exists(name(point, $0)) }) {
      await Pause.milliseconds(20)
    }
  }

  func announce(_ cluster: Cluster) throws {
    // Complete as soon as it is there.
    let new = "\(Self.clusterFile).new"
    try write(JSONEncoder().encode(cluster), to: new)
    guard rename(path(new), path(Self.clusterFile)) == 0 else {
      throw SetupError("--meet \(folder): \(String(cString: strerror(errno)))")
    }
  }

  /// Waits for the cluster of the first slice.
  /// - Throws: ``StartGivenUp`` where the run is interrupted.
  func cluster(isWanted: () -> Bool) async throws -> Cluster {
    while isWanted() {
      if let data = FileManager.default.contents(atPath: path(Self.clusterFile)) {
        return try JSONDecoder().decode(Cluster.self, from: data)
      }
      await Pause.milliseconds(20)
    }
    throw StartGivenUp()
  }

  private func name(_ point: Point, _ number: Int) -> String { "\(point.rawValue).\(number)" }
  private func path(_ name: String) -> String { "\(folder)/\(name)" }
  private func exists(_ name: String) -> Bool {
    FileManager.default.fileExists(atPath: path(name))
  }

  private func write(_ data: Data, to name: String) throws {
    do {
      try data.write(to: URL(filePath: path(name)), options: .withoutOverwriting)
    } catch {
      throw SetupError(
        "--meet \(folder): \(name) cannot be written; give each run an empty folder of its own")
    }
  }
}
