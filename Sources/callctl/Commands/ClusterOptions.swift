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
      "The NATS user, where the servers ask for user and password. CALLMESH_NATS_USER does the same.",
      valueName: "name"))
  var natsUser: String?
  @Option(
    help: ArgumentHelp(
      "The file with that user's password. CALLMESH_NATS_PASSWORD_FILE does the same.",
      valueName: "path"))
  var natsPasswordFile: String?
  @Option(
    help: ArgumentHelp(
      "The authorities that sign the certificates of NATS servers (PEM), beside those that the system "
        + "trusts. CALLMESH_NATS_CA does the same.", valueName: "path"))
  var natsCA: String?
  @Option(
    help: ArgumentHelp(
      "The certificate that is shown to NATS servers that ask for one (PEM). CALLMESH_NATS_CERTIFICATE "
        + "does the same.", valueName: "path"))
  var natsCertificate: String?
  @Option(
    help: ArgumentHelp(
      "The key of that certificate (PEM). CALLMESH_NATS_KEY does the same.", valueName: "path"))
  var natsKey: String?
  @Option(
    help: ArgumentHelp(
      "The cluster's name. CALLMESH_CLUSTER does the same. (default: callmesh)", valueName: "name"))
  var cluster: String?
  @Option(
    name: .customLong("operator"),
    help: ArgumentHelp(
      "Under whose name orders are given and recorded: NATS lets an operator use its own only. "
        + "CALLMESH_OPERATOR does the same. (default: the NATS user, or who you are on this machine)",
      valueName: "name"))
  var operatorOption: String?
  @Option(
    help: ArgumentHelp("How long nodes may take to answer, in seconds.", valueName: "seconds"))
  var timeout: Double = 1

  func validate() throws {
    guard timeout >= 0.05, timeout <= 60 else {
      throw ValidationError("--timeout is \(timeout); give 0.05 to 60 seconds.")
    }
    if natsUrl?.contains("@") == true {
      throw ValidationError(
        "--nats-url is \(shownURL): it holds a password or a token, which every process of this machine "
          + "can read there. Give the URL without it, and --nats-user with --nats-password-file; or set "
          + "CALLMESH_NATS_URL.")
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

  private var operatorName: String {
    let names = [
      operatorOption, environment["CALLMESH_OPERATOR"], access.user, environment["USER"],
    ]
    return names.lazy.compactMap { $0 }.first { !$0.isEmpty } ?? "operator"
  }

  private var access: NATSAccess {
    func given(_ flag: String?, _ name: String) -> String? {
      flag ?? environment["CALLMESH_NATS_" + name]
    }
    var access = NATSAccess()
    access.credentialsFile = given(natsCredentials, "CREDENTIALS")
    access.user = given(natsUser, "USER")
    access.passwordFile = given(natsPasswordFile, "PASSWORD_FILE")
    access.ca = given(natsCA, "CA")
    access.certificate = given(natsCertificate, "CERTIFICATE")
    access.key = given(natsKey, "KEY")
    return access
  }

  /// The URL as it may be shown.
  var shownURL: String { NATSURL.withoutCredentials(url) }

  /// Connects for as long as `body` takes.
  /// - Throws: `CallctlError` when NATS cannot be reached; what `body` throws.
  func withCluster<Result>(_ body: (ClusterQuestions) async throws -> Result) async throws -> Result
  {
    let subjects = Subjects(cluster: clusterName, shardCount: 1)
    var options = NATSOptions(subjects: subjects)
    options.access = access
    options.role = NATSRole.operator.rawValue
    do {
      try access.check()
    } catch {
      throw CallctlError.usage("\(error.part.rawValue): \(error).")
    }
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
          operatorName: operatorName))
      await bus.close()
      return result
    } catch {
      await bus.close()
      throw error
    }
  }
}
