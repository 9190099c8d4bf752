"""Who may import whom: read by `test_import_rules`, which says what the lines mean."""

# module     | libraries                     | modules of bayes_sd
TABLE = """
exceptions        |                               |
schema_columns    |                               |
nearest           |                               |
schema            |                               | schema_columns nearest
validate          | ARRAYS                        | exceptions schema nearest
whole_file        |                               | exceptions
quiet             |                               |
physics.*         | numpy                         |
simulate_*        | numpy pandas scipy numba      | LOW
simulate          | numpy pandas rich             | LOW simulate_*
labels            | ARRAYS                        | LOW
run_checks        | numpy pandas                  | LOW
acceptance_counts | numpy pandas                  | LOW run_checks
run_variables     | ARRAYS                        | LOW run_checks
request_statistics | numpy pandas                 | LOW run_variables
unit_checks       | numpy pandas                  | LOW
frames            | numpy pandas                  | LOW run_checks unit_checks
equivalent_rate   | scipy                         | physics.*
draft_shapes      | numpy pandas                  | LOW acceptance_counts equivalent_rate
data              | ARRAYS                        | LOW frames ROWS draft_shapes
datasets          | numpy pandas                  | LOW frames
prior             | numpy scipy                   | LOW
acceptance_priors |                               | prior
spread_priors     |                               | prior
acceptance_levels | numpy xarray                  | LOW physics.*
acceptance_likelihoods | numpy GRAPH              | LOW
percentile_ratios | numpy scipy                   | LOW physics.*
tail_likelihood   | numpy GRAPH                   | LOW physics.* percentile_ratios
priors            | ARRAYS GRAPH scipy            | LOW physics.* prior acceptance_priors
+ spread_priors
population        | ARRAYS GRAPH                  | LOW priors
run_load          | numpy xarray                  | LOW physics.*
expert_graph      | ARRAYS GRAPH                  | LOW physics.* labels priors
acceptance_graph  | ARRAYS GRAPH                  | LOW physics.* priors population
+ acceptance_levels acceptance_likelihoods
likelihoods       | ARRAYS GRAPH                  | LOW physics.*
shares_of_sums    | GRAPH                         |
graph             | ARRAYS GRAPH                  | LOW physics.* labels priors population
+ shares_of_sums expert_graph
ttft_graph        | ARRAYS GRAPH                  | LOW prior priors population run_load
+ shares_of_sums
least_squares     | ARRAYS scipy                  | LOW physics.* labels priors run_load
+ acceptance_graph acceptance_levels
percentile_graph  | ARRAYS GRAPH                  | LOW physics.* prior population run_load
+ acceptance_levels percentile_ratios tail_likelihood least_squares spread_priors
model             | ARRAYS GRAPH                  | LOW physics.* data priors likelihoods graph
+ run_load population acceptance_graph expert_graph ttft_graph percentile_graph
+ least_squares
start             | ARRAYS scipy                  | LOW priors graph least_squares
blocks            | ARRAYS GRAPH                  | LOW prior model least_squares acceptance_graph
+ ttft_graph percentile_graph
sampling          | ARRAYS GRAPH nutpie           | LOW prior model start blocks
convergence       | ARRAYS arviz                  | LOW
storage           | ARRAYS                        | LOW
fitting           | ARRAYS GRAPH           | LOW data priors model start convergence
+ storage acceptance_graph least_squares sampling
scenario          | numpy pandas                  | LOW
posterior         | numpy xarray                  | LOW physics.* labels scenario acceptance_levels
+ equivalent_rate spread_priors
support           | numpy xarray                  | LOW physics.* scenario
new_pairs         | numpy xarray scipy            | LOW physics.* priors scenario posterior
configuration     | numpy xarray                  | LOW physics.* run_load scenario posterior
+ new_pairs
request_latency   | numpy                         | LOW physics.* configuration percentile_ratios
+ run_load
+ acceptance_levels
law_of_draws      | numpy                         | LOW physics.* configuration
batch_roots       | numpy                         | LOW physics.*
load_curve        | numpy                         | LOW physics.* configuration law_of_draws
+ batch_roots
smooth_law        | numpy                         | LOW physics.* law_of_draws
smooth_curve      | numpy                         | LOW configuration law_of_draws load_curve
+ batch_roots smooth_law
configuration_draws | numpy xarray                | LOW support configuration request_latency
+ law_of_draws load_curve smooth_curve
sensitivity       | ARRAYS arviz scipy            | LOW prior priors new_pairs
predict           | ARRAYS scipy                  | LOW physics.* scenario posterior support
+ configuration request_latency configuration_draws spread_priors
acceptance_predict | ARRAYS                       | LOW physics.* acceptance_levels posterior
summary           | ARRAYS                        | LOW
shares            | ARRAYS                        | LOW physics.* scenario predict configuration
decision          | pandas                        |
slo               |                               | LOW
slo_draws         | ARRAYS scipy                  | LOW physics.* scenario predict configuration slo
+ request_latency
utilities         | ARRAYS                        | LOW scenario predict slo slo_draws
decide            | ARRAYS                        | LOW physics.* scenario predict decision
+ configuration slo utilities
attainment        | ARRAYS                        | LOW scenario decide slo slo_draws
goodput_rate      | ARRAYS                        | LOW scenario slo attainment
rate_search       | numpy                         | LOW slo_draws
capacity_draws    | numpy xarray                  | LOW physics.* support configuration
capacity          | ARRAYS                        | LOW scenario decide configuration slo slo_draws
+ rate_search capacity_draws
traffic           | numpy pandas                  | LOW
replicas          | ARRAYS                        | LOW scenario slo capacity traffic
load_draws        | numpy xarray                  | LOW scenario configuration configuration_draws
policy_path       | numpy                         |
policy            | ARRAYS                        | LOW scenario decide load_draws policy_path
fixed_draft_length | numpy pandas                 | LOW
engine_schemas    |                               | LOW
engine_files      | numpy pandas                  | LOW engine_schemas
pair_comparison   | ARRAYS                        | LOW scenario predict decide
drafter_size      | xarray                        | LOW scenario configuration pair_comparison
run_value         | ARRAYS                        | LOW scenario predict decide
runs_needed       | numpy xarray                  | LOW scenario decide run_value
break_even        | ARRAYS                        | LOW physics.* scenario support predict decide
+ configuration
scenario_files    |                               | LOW scenario
length_needed     | ARRAYS                        | LOW scenario configuration support predict
+ decide
curves            | ARRAYS                        | LOW scenario support predict decide
+ configuration
live_counts       |                               | LOW
acceptance_update | numpy xarray scipy            | LOW live_counts acceptance_levels
+ acceptance_likelihoods posterior
live_window       | pandas                        | LOW
live_reference    | numpy xarray                  | LOW physics.* acceptance_levels posterior
+ acceptance_likelihoods configuration scenario support
drift_streams     | numpy                         |
drift_report      | pandas                        |
drift_watch       | numpy                         | drift_streams live_reference live_window
drift             | numpy xarray                  | LOW decide drift_report drift_streams
+ drift_watch live_reference live_window posterior scenario
live_recommend    | numpy xarray                  | LOW decide decision drift live_window policy
+ scenario
live_figures      | numpy xarray                  | LOW scenario predict shares slo attainment
+ live_recommend live_window
live_export       | prometheus_client             | LOW drift_report live_figures
model_comparison  | ARRAYS arviz                  | LOW
packing           | numpy xarray                  | LOW convergence storage posterior spread_priors
lifted_graph      | numpy GRAPH                   |
shared_compile    | ARRAYS GRAPH nutpie           | blocks sampling lifted_graph
fleet_groups      | pandas                        | LOW frames data labels prior storage
fleet_store       | pandas h5netcdf               | LOW storage
fleet_task        | pandas xarray                 | LOW data priors model fitting sampling storage
+ shared_compile fleet_groups fleet_store
fleet_fits        | pandas xarray                 | LOW storage fleet_store
fleet_cluster     | dask distributed              | LOW fleet_groups fleet_store fleet_task
fleet             | pandas rich                   | LOW prior priors model fleet_groups fleet_store
+ fleet_task fleet_fits fleet_cluster
run_law           | ARRAYS scipy                  | LOW physics.* labels posterior acceptance_graph
+ run_load
+ acceptance_levels expert_graph likelihoods
prior_draws       | pymc xarray                   | LOW
check             | ARRAYS                        | LOW data prior model run_law prior_draws
generate_counts   | ARRAYS scipy                  | LOW acceptance_likelihoods run_law
generate          | ARRAYS                        | LOW physics.* run_load run_law
+ generate_counts ttft_graph
uniformity        | ARRAYS scipy                  | LOW
sbc_quantities    | ARRAYS                        | LOW physics.* scenario posterior predict
+ configuration
+ break_even run_law generate_counts
sbc_mistakes      | ARRAYS GRAPH                  | LOW run_law
prior_simulation  | ARRAYS GRAPH nutpie           | LOW data priors model start fitting generate
+ run_law sbc_quantities sbc_mistakes prior_draws
sbc               | ARRAYS GRAPH nutpie rich arviz | LOW data priors model start fitting generate
+ uniformity
+ run_law sbc_quantities sbc_mistakes prior_simulation sampling
measured_acceptance | numpy xarray                | LOW physics.* acceptance_levels
baselines         | ARRAYS scipy                  | LOW physics.* measured_acceptance
readers.*         | numpy pandas orjson zstandard pyarrow rich | LOW frames request_statistics
+ run_variables
plots.*           | ARRAYS matplotlib arviz_plots | LOW
report_grid       | numpy xarray                  | LOW scenario configuration decide posterior
+ capacity_draws
report_numbers    | numpy xarray                  | LOW scenario configuration decide predict
+ break_even capacity_draws curves shares report_grid
report_provenance | numpy xarray                  | LOW posterior
report_requests   | numpy xarray                  | LOW decide slo request_latency slo_draws packing
+ report_grid utilities
report            | numpy xarray jinja2 vl_convert | LOW scenario slo decide report_grid
+ report_numbers report_provenance report_requests
prometheus_api    |                               | LOW readers.*
prometheus_windows |                              | LOW live_window readers.*
live_source       |                               | LOW live_window readers.* prometheus_api
+ prometheus_windows
render            | ARRAYS rich                   | LOW convergence decision policy break_even
demo              | ARRAYS rich matplotlib        | LOW MIDDLE SHOWN
cli_*             | ARRAYS rich typer             | LOW MIDDLE SHOWN readers.* demo prometheus_api
+ prometheus_windows live_source
cli               | ARRAYS rich typer             | LOW MIDDLE SHOWN readers.* demo cli_*
+ prometheus_api prometheus_windows live_source
__init__          |                               | LOW MIDDLE datasets readers.* plots.* report
"""
SETS = {
    "ARRAYS": ["numpy", "pandas", "xarray"],
    "GRAPH": ["pymc", "pytensor"],
    "LOW": ["exceptions", "nearest", "schema", "schema_columns", "validate", "quiet", "whole_file"],
    "ROWS": ["run_checks", "labels", "acceptance_counts", "run_variables"],
    "MIDDLE": (
        "scenario_files length_needed "
        "frames data priors model convergence storage fitting check scenario posterior predict "
        "summary shares decision decide policy break_even curves sensitivity prior "
        "acceptance_predict sbc pair_comparison run_value runs_needed drafter_size slo "
        "engine_files fixed_draft_length utilities attainment goodput_rate capacity replicas "
        "uniformity request_statistics simulate simulate_* live_counts acceptance_update "
        "live_window drift drift_report live_recommend live_figures live_export packing "
        "model_comparison fleet fleet_fits fleet_store"
    ).split(),
    "SHOWN": ["datasets", "plots.*", "report", "render"],
}
