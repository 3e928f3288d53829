internal import ArgumentParser
internal import CallBus
internal import FoundationEssentials
internal import NATSBus

/// Which cluster to ask, and how long to wait.
struct ClusterOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Where NATS is. CALLMESH_NATS_URL does the same. (default: nats://127.0.0.1:4222)",
      valueName: "url"))
  var natsUrl: String?
  @Option(
    help: ArgumentHelp(
      "A NATS credentials file, where the servers ask for one. CALLMESH_NATS_CREDENTIALS does the "
        + "same.", valueName: "path"))
  var natsCredentials: String?
  @Option(
    help: ArgumentHelp(
      "The cluster's name. CALLMESH_CLUSTER does the same. (default: callmesh)", valueName: "name"))
  var cluster: String?
  @Option(
    help: ArgumentHelp("How long nodes may take to answer, in seconds.", valueName: "seconds"))
  var timeout: Double = 1

  func validate() throws {
    guard timeout >= 0.05, timeout <= 60 else {
      throw ValidationError("--timeout is \(timeout); give 0.05 to 60 seconds.")
    }
    guard !clusterName.isEmpty, !clusterName.contains(where: { ".*> \t".contains($0) }) else {
      throw ValidationError(
        "--cluster is \"\(clusterName)\"; a cluster's name is 1 to 32 letters, digits, '-' and '_'."
      )
    }
  }

  private var environment: [String: String] { ProcessInfo.processInfo.environment }
  private var url: String {
    natsUrl ?? environment["CALLMESH_NATS_URL"] ?? "nats://127.0.0.1:4222"
  }
  var clusterName: String { cluster ?? environment["CALLMESH_CLUSTER"] ?? "callmesh" }
  var window: Duration { .milliseconds(Int64(timeout * 1000)) }

  /// The URL as it may be shown.
  var shownURL: String {
    url.split(separator: ",").map { one in
      guard let at = one.lastIndex(of: "@") else { return String(one) }
      let scheme = one.firstRange(of: "://").map { String(one[..<$0.upperBound]) } ?? ""
      return scheme + "***@" + one[one.index(after: at)...]
    }.joined(separator: ",")
  }

  /// What the gateways say themselves, where there are any; without them it is the queue that knows.
  private static func depths(_ bus: NATSBus) async -> [String: Int]? {
    var options = WorkQueueOptions()
    options.createsMissing = false
    guard let queue = try? await bus.openWorkQueue(options) else { return nil }
    var depths: [String: Int] = [:]
    for lane in ClusterView.pushLanes { depths[lane] = try? await queue.depth(lane: lane) }
    return depths
  }

  private static func store(
    _ revocation: Revocation, _ bus: NATSBus, _ subjects: Subjects
  ) async throws {
    var options = BucketOptions()
    options.createsMissing = false
    let bucket = try await bus.openBucket(subjects.revocationBucket, options)
    try await revocation.store(in: bucket)
  }

  /// Connects for as long as `body` takes.
  /// - Throws: `CallctlError` when NATS cannot be reached; what `body` throws.
  func withCluster<Result>(_ body: (ClusterQuestions) async throws -> Result) async throws -> Result
  {
    let subjects = Subjects(cluster: clusterName, shardCount: 1)
    var options = NATSOptions(subjects: subjects)
    options.credentialsFile = natsCredentials ?? environment["CALLMESH_NATS_CREDENTIALS"]
    let bus: NATSBus
    do {
      bus = try await NATSBus.connect(url: url, name: "callctl", options: options)
    } catch {
      throw CallctlError.unreachable(
        """
        NATS at \(shownURL) cannot be reached: \(error).
          --nats-url URL or CALLMESH_NATS_URL says where it is, --cluster or CALLMESH_CLUSTER which \
        cluster to ask.
        """)
    }
    do {
      let result = try await body(
        ClusterQuestions(
          bus: bus, subjects: subjects, window: window, shownURL: shownURL,
          pushQueue: { await Self.depths(bus) },
          store: { try await Self.store($0, bus, subjects) }))
      await bus.close()
      return result
    } catch {
      await bus.close()
      throw error
    }
  }
}
